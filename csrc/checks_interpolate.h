// Argument checks of the three interpolation ops, shared by all backends. See checks.h.
#pragma once

#include "checks.h"

namespace farpoint {

inline void check_same_type(const char* name, const at::Tensor& tensor, const char* first_name,
                            const at::Tensor& first) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == first.scalar_type(), name, ": expected ",
                   first.scalar_type(), " as ", first_name, ", got ", tensor.scalar_type());
  check_same_device(name, tensor, first);
}

// Floating point (B, C, points).
inline void check_float_features(const char* name, const at::Tensor& features) {
  check_features(name, features);
  TORCH_CHECK_TYPE(at::isFloatingType(features.scalar_type()), name,
                   ": expected a floating point type, got ", features.scalar_type());
}

// (B, N, K), with B from `first` and any N.
inline void check_corners(const at::Tensor& idx, const at::Tensor& first) {
  check_index_type("idx", idx);
  TORCH_CHECK_VALUE(idx.dim() == 3 && idx.size(0) == first.size(0), "idx: expected shape (",
                    first.size(0), ", N, K), got ", idx.sizes());
  check_same_device("idx", idx, first);
}

inline void check_weight(const at::Tensor& weight, const at::Tensor& idx, const char* first_name,
                         const at::Tensor& first) {
  TORCH_CHECK_VALUE(weight.sizes() == idx.sizes(), "weight: expected the shape of idx, ",
                    idx.sizes(), ", got ", weight.sizes());
  check_same_type("weight", weight, first_name, first);
}

inline void check_value_columns(const at::Tensor& values, const at::Tensor& idx) {
  TORCH_CHECK_VALUE(values.size(2) == idx.size(1), "values: expected shape (B, C, ", idx.size(1),
                    "), got ", values.sizes());
}

inline void check_interpolate(const at::Tensor& features, const at::Tensor& idx,
                              const at::Tensor& weight) {
  check_float_features("features", features);
  check_corners(idx, features);
  check_weight(weight, idx, "features", features);
}

inline void check_interpolate_scatter(const at::Tensor& values, const at::Tensor& idx,
                                      const at::Tensor& weight, int64_t m) {
  check_float_features("values", values);
  check_corners(idx, values);
  check_value_columns(values, idx);
  check_weight(weight, idx, "values", values);
  TORCH_CHECK_VALUE(m >= 0, "m: expected a non-negative size, got ", m);
}

inline void check_interpolate_dot(const at::Tensor& values, const at::Tensor& features,
                                  const at::Tensor& idx) {
  check_float_features("values", values);
  check_features("features", features);
  check_same_type("features", features, "values", values);
  TORCH_CHECK_VALUE(features.size(0) == values.size(0) && features.size(1) == values.size(1),
                    "features: expected shape (", values.size(0), ", ", values.size(1),
                    ", M), got ", features.sizes());
  check_corners(idx, values);
  check_value_columns(values, idx);
}

}  // namespace farpoint
