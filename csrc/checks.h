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

inline void check_cloud_shape(const at::Tensor& xyz) {
  TORCH_CHECK_VALUE(xyz.dim() == 3 && xyz.size(2) == 3, "xyz: expected shape (B, N, 3), got ",
                    xyz.sizes());
  TORCH_CHECK_VALUE(xyz.size(1) >= 1, "xyz: expected at least one point in a cloud, got ",
                    xyz.sizes());
  TORCH_CHECK_VALUE(xyz.size(1) <= kMostPoints, "xyz: expected at most ", kMostPoints,
                    " points in a cloud, got ", xyz.sizes());
}

inline void check_flat_shape(const at::Tensor& xyz) {
  TORCH_CHECK_VALUE(xyz.dim() == 2 && xyz.size(1) == 3, "xyz: expected shape (N, 3), got ",
                    xyz.sizes());
  TORCH_CHECK_VALUE(xyz.size(0) <= kMostPoints, "xyz: expected at most ", kMostPoints,
                    " points, got ", xyz.sizes());
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

inline void check_features(const char* name, const at::Tensor& features) {
  TORCH_CHECK_VALUE(features.dim() == 3, name,
                    ": expected 3 dimensions (batch, channels, points), got ", features.sizes());
}

// `first` is (B, C, N) for a gather and (B, C, M) for a scatter; `idx` is (B, M).
inline void check_gather(const char* name, const at::Tensor& first, const at::Tensor& idx) {
  check_features(name, first);
  check_index_type("idx", idx);
  TORCH_CHECK_VALUE(idx.dim() == 2 && idx.size(0) == first.size(0), "idx: expected shape (",
                    first.size(0), ", M), got ", idx.sizes());
  check_same_device("idx", idx, first);
}

// `features` (B, C, N), `idx` (B, M, K).
inline void check_group(const at::Tensor& features, const at::Tensor& idx) {
  check_features("features", features);
  check_index_type("idx", idx);
  TORCH_CHECK_VALUE(idx.dim() == 3 && idx.size(0) == features.size(0), "idx: expected shape (",
                    features.size(0), ", M, K), got ", idx.sizes());
  check_same_device("idx", idx, features);
}

// `values` (B, C, M) go to rows `idx` (B, M) of n.
inline void check_scatter(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  check_gather("values", values, idx);
  TORCH_CHECK_TYPE(at::isFloatingType(values.scalar_type()),
                   "values: expected a floating point type, got ", values.scalar_type());
  TORCH_CHECK_VALUE(values.size(2) == idx.size(1), "values: expected shape (B, C, ", idx.size(1),
                    "), got ", values.sizes());
  TORCH_CHECK_VALUE(n >= 0, "n: expected a non-negative size, got ", n);
}

}  // namespace farpoint
