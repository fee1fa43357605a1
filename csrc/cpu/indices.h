// Range check of index tensors, before anything is read with them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <string>

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

}  // namespace farpoint
