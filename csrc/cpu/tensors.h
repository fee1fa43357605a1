// Tensors as the CPU ops read and make them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checks.h"

namespace farpoint {

// The place of element `at` of a contiguous tensor, as "(1, 3)".
inline std::string place_of(const at::Tensor& tensor, int64_t at) {
  std::string place;
  for (int64_t d = tensor.dim() - 1; d >= 0; at /= tensor.size(d--)) {
    place = (d > 0 ? ", " : "(") + std::to_string(at % tensor.size(d)) + place;
  }
  return place + ")";
}

// Every element of contiguous `idx` names one of `points` columns.
template <typename Index>
void check_range(const at::Tensor& idx, int64_t points) {
  const Index* first = idx.const_data_ptr<Index>();
  const Index* end = first + idx.numel();
  const Index* bad = std::find_if(first, end, [=](Index i) { return i < 0 || i >= points; });
  TORCH_CHECK_INDEX(bad == end, "idx: expected 0 <= idx < ", points, ", got ", *bad, " at ",
                    place_of(idx, bad - first));
}

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

// Fresh memory comes page by page while it is first written. Where pages are of 4 KB that takes
// longer than a gather, so a large result asks for huge ones, within its own memory.
inline at::Tensor empty_output(at::IntArrayRef shape, const at::TensorOptions& options) {
  constexpr uintptr_t kHugePage = 2 << 20;
  constexpr size_t kLargeBytes = 8 << 20;
  auto out = at::empty(shape, options);
#ifdef MADV_HUGEPAGE
  if (out.nbytes() >= kLargeBytes) {
    const auto first = reinterpret_cast<uintptr_t>(out.mutable_data_ptr());
    const uintptr_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
    const uintptr_t end = (first + out.nbytes()) / kHugePage * kHugePage;
    // Advice: where the system does not take it, the result is the same.
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
  return out;
}

}  // namespace farpoint
