// Per-cloud lengths as the CPU ops read them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <optional>
#include <vector>

namespace farpoint {

// The number of points of each of `batch` clouds: `lengths`, each of low..n, or n everywhere.
inline std::vector<int64_t> sizes_of(const char* name, const std::optional<at::Tensor>& lengths,
                                     int64_t batch, int64_t low, int64_t n) {
  if (!lengths) return std::vector<int64_t>(batch, n);
  const auto values = lengths->to(at::kLong).contiguous();
  const int64_t* first = values.const_data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    TORCH_CHECK_VALUE(first[b] >= low && first[b] <= n, name, ": expected ", low,
                      " <= length <= ", n, " for cloud ", b, ", got ", first[b]);
  }
  return {first, first + batch};
}

}  // namespace farpoint
