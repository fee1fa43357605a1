// Argument checks shared by all backends. Each message names the argument, what was expected and
// what arrived. Only sizes and types are read here, never data, so no device is waited for.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace farpoint {

// Rows are int32, and kernels look a stride past the last one before they stop.
constexpr int64_t kMostPoints = std::numeric_limits<int32_t>::max() - (1 << 20);

inline bool is_index_type(at::ScalarType type) { return type == at::kInt || type == at::kLong; }

inline void check_index_type(const char* name, const at::Tensor& idx) {
  TORCH_CHECK_TYPE(is_index_type(idx.scalar_type()), name, ": expected int32 or int64, got ",
                   idx.scalar_type());
}

inline void check_same_device(const char* name, const at::Tensor& tensor, const at::Tensor& first) {
  TORCH_CHECK_VALUE(tensor.device() == first.device(), name, ": expected a tensor on ",
                    first.device(), ", got one on ", tensor.device());
}

inline void check_same_type(const char* name, const at::Tensor& tensor, const char* first_name,
                            const at::Tensor& first) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == first.scalar_type(), name, ": expected ",
                   first.scalar_type(), " as ", first_name, ", got ", tensor.scalar_type());
  check_same_device(name, tensor, first);
}

// The halves are widened to float32; float64 is computed in.
inline void check_coordinates(const char* name, const at::Tensor& xyz) {
  const auto type = xyz.scalar_type();
  TORCH_CHECK_TYPE(
      type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kDouble, name,
      ": expected float32, float16, bfloat16 or float64 coordinates, got ", type);
}

// Distances between float64 coordinates are float64, between all others float32.
inline at::ScalarType distance_type(const at::Tensor& xyz) {
  return xyz.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// One integer for each cloud, int32 or int64.
inline void check_per_cloud(const char* name, const std::optional<at::Tensor>& values,
                            int64_t count, const at::Tensor& xyz) {
  if (!values) return;
  check_index_type(name, *values);
  TORCH_CHECK_VALUE(values->dim() == 1 && values->size(0) == count, name, ": expected shape (",
                    count, ",), got ", values->sizes());
  check_same_device(name, *values, xyz);
}

// Host int64 offsets (B + 1,) of clouds or samples that lie one after another.
inline void check_offsets(const char* name, const at::Tensor& offsets, int64_t total) {
  const int64_t* o = offsets.const_data_ptr<int64_t>();
  const int64_t last = offsets.size(0) - 1;
  TORCH_CHECK_VALUE(o[0] == 0 && o[last] == total, name, ": expected offsets from 0 to ", total,
                    ", got ", o[0], " to ", o[last]);
  for (int64_t b = 0; b < last; ++b) {
    TORCH_CHECK_VALUE(o[b] <= o[b + 1], name, ": expected offsets that never fall, got ", o[b],
                      " before ", o[b + 1], " at ", b);
  }
}

}  // namespace farpoint
