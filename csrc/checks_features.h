// Argument checks of the ops on channel-first features, shared by all backends. See checks.h.
#pragma once

#include "checks.h"

namespace farpoint {

inline void check_features(const char* name, const at::Tensor& features) {
  TORCH_CHECK_VALUE(features.dim() == 3, name,
                    ": expected 3 dimensions (batch, channels, points), got ", features.sizes());
}

inline void check_float_features(const char* name, const at::Tensor& features) {
  check_features(name, features);
  TORCH_CHECK_TYPE(at::isFloatingType(features.scalar_type()), name,
                   ": expected a floating point type, got ", features.scalar_type());
}

// Indices (B, ...), with B from `first`; `rest` names the other dimensions.
inline void check_idx(const at::Tensor& idx, const at::Tensor& first, int64_t rank,
                      const char* rest) {
  check_index_type("idx", idx);
  TORCH_CHECK_VALUE(idx.dim() == rank && idx.size(0) == first.size(0), "idx: expected shape (",
                    first.size(0), ", ", rest, "), got ", idx.sizes());
  check_same_device("idx", idx, first);
}

inline void check_value_columns(const at::Tensor& values, const at::Tensor& idx) {
  TORCH_CHECK_VALUE(values.size(2) == idx.size(1), "values: expected shape (B, C, ", idx.size(1),
                    "), got ", values.sizes());
}

inline void check_size(const char* name, int64_t size) {
  TORCH_CHECK_VALUE(size >= 0, name, ": expected a non-negative size, got ", size);
}

// `features` (B, C, N), `idx` (B, M).
inline void check_gather(const at::Tensor& features, const at::Tensor& idx) {
  check_features("features", features);
  check_idx(idx, features, 2, "M");
}

// `features` (B, C, N), `idx` (B, M, K).
inline void check_group(const at::Tensor& features, const at::Tensor& idx) {
  check_features("features", features);
  check_idx(idx, features, 3, "M, K");
}

// `values` (B, C, M) go to rows `idx` (B, M) of n.
inline void check_scatter(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  check_float_features("values", values);
  check_idx(idx, values, 2, "M");
  check_value_columns(values, idx);
  check_size("n", n);
}

inline void check_weight(const at::Tensor& weight, const at::Tensor& idx, const char* first_name,
                         const at::Tensor& first) {
  TORCH_CHECK_VALUE(weight.sizes() == idx.sizes(), "weight: expected the shape of idx, ",
                    idx.sizes(), ", got ", weight.sizes());
  check_same_type("weight", weight, first_name, first);
}

inline void check_interpolate(const at::Tensor& features, const at::Tensor& idx,
                              const at::Tensor& weight) {
  check_float_features("features", features);
  check_idx(idx, features, 3, "N, K");
  check_weight(weight, idx, "features", features);
}

inline void check_interpolate_scatter(const at::Tensor& values, const at::Tensor& idx,
                                      const at::Tensor& weight, int64_t m) {
  check_float_features("values", values);
  check_idx(idx, values, 3, "N, K");
  check_value_columns(values, idx);
  check_weight(weight, idx, "values", values);
  check_size("m", m);
}

inline void check_interpolate_dot(const at::Tensor& values, const at::Tensor& features,
                                  const at::Tensor& idx) {
  check_float_features("values", values);
  check_features("features", features);
  check_same_type("features", features, "values", values);
  TORCH_CHECK_VALUE(features.size(0) == values.size(0) && features.size(1) == values.size(1),
                    "features: expected shape (", values.size(0), ", ", values.size(1),
                    ", M), got ", features.sizes());
  check_idx(idx, values, 3, "N, K");
  check_value_columns(values, idx);
}

}  // namespace farpoint
