// Argument checks shared by all backends, and the form in which arguments are computed. Each
// message names the argument, what was expected and what arrived. Only sizes and types are read
// here, never data, so no device is waited for.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <c10/util/Exception.h>

#include <algorithm>
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

// Two sets of points may have two types; the wider one decides.
inline at::ScalarType distance_type(const at::Tensor& xyz, const at::Tensor& points) {
  return distance_type(xyz.scalar_type() == at::kDouble ? xyz : points);
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

inline at::Tensor int64_or_none(const std::optional<at::Tensor>& values) {
  return values ? values->to(at::kLong).contiguous() : at::Tensor();
}

// Contiguous, in the type that is computed in: the halves in float32, rounded once at the end.
inline at::Tensor widened(const at::Tensor& values) {
  return values.to(distance_type(values)).contiguous();
}

inline at::Tensor widened(const at::Tensor& values, at::ScalarType type) {
  return values.to(type).contiguous();
}

// Farthest point sampling.

constexpr int64_t kMostDimensions = 1024;

// (B, N, D) or (N, D): D from 1 to 1024, of a type that is computed in.
inline void check_sampled(const at::Tensor& xyz, int64_t rank) {
  const bool shaped =
      xyz.dim() == rank && xyz.size(rank - 1) >= 1 && xyz.size(rank - 1) <= kMostDimensions;
  TORCH_CHECK_VALUE(shaped, "xyz: expected shape ", rank == 3 ? "(B, N, D)" : "(N, D)",
                    " with D from 1 to ", kMostDimensions, ", got ", xyz.sizes());
  const int64_t points = xyz.size(rank - 2);
  TORCH_CHECK_VALUE(rank == 2 || points >= 1, "xyz: expected at least one point in a cloud, got ",
                    xyz.sizes());
  TORCH_CHECK_VALUE(points <= kMostPoints, "xyz: expected at most ", kMostPoints, " points",
                    rank == 3 ? " in a cloud" : "", ", got ", xyz.sizes());
  check_coordinates("xyz", xyz);
}

inline void check_sample_count(int64_t m, int64_t points) {
  TORCH_CHECK_VALUE(m >= 1 && m <= points, "num_samples: expected 1 to N = ", points, ", got ", m);
}

// The radius of each cloud at which its sampling ends, in the type of the distances.
inline void check_radius(const std::optional<at::Tensor>& radius, int64_t count,
                         const at::Tensor& xyz) {
  if (!radius) return;
  TORCH_CHECK_TYPE(radius->scalar_type() == distance_type(xyz), "radius: expected ",
                   distance_type(xyz), ", got ", radius->scalar_type());
  TORCH_CHECK_VALUE(radius->dim() == 1 && radius->size(0) == count, "radius: expected shape (",
                    count, ",), got ", radius->sizes());
  check_same_device("radius", *radius, xyz);
}

// Clouds (B, N, D).
inline void check_dense(const at::Tensor& xyz, int64_t m, const std::optional<at::Tensor>& start,
                        const std::optional<at::Tensor>& lengths,
                        const std::optional<at::Tensor>& radius) {
  check_sampled(xyz, 3);
  check_sample_count(m, xyz.size(1));
  check_per_cloud("start", start, xyz.size(0), xyz);
  check_per_cloud("lengths", lengths, xyz.size(0), xyz);
  check_radius(radius, xyz.size(0), xyz);
}

// Rows (N, D); `offsets` and `sample_offsets` are int64 (B + 1,), with B taken from `offsets`.
inline void check_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                         const at::Tensor& sample_offsets, const std::optional<at::Tensor>& start,
                         const std::optional<at::Tensor>& radius) {
  check_sampled(xyz, 2);
  TORCH_CHECK_TYPE(offsets.scalar_type() == at::kLong, "offsets: expected int64, got ",
                   offsets.scalar_type());
  TORCH_CHECK_VALUE(offsets.dim() == 1 && offsets.size(0) >= 1,
                    "offsets: expected shape (B + 1,), got ", offsets.sizes());
  check_same_device("offsets", offsets, xyz);
  TORCH_CHECK_TYPE(sample_offsets.scalar_type() == at::kLong,
                   "sample_offsets: expected int64, got ", sample_offsets.scalar_type());
  check_per_cloud("sample_offsets", sample_offsets, offsets.size(0), xyz);
  check_per_cloud("start", start, offsets.size(0) - 1, xyz);
  check_radius(radius, offsets.size(0) - 1, xyz);
}

// Up to three dimensions in float32 have kernels of their own: a dimension that is 0 everywhere
// adds nothing to a distance, since fma(0, 0, d) is d.
inline bool is_spatial(const at::Tensor& xyz) {
  return xyz.scalar_type() != at::kDouble && xyz.size(-1) <= 3;
}

// Contiguous float32 or float64, with three dimensions where there are fewer.
inline at::Tensor sampled_coordinates(const at::Tensor& xyz) {
  const auto points = widened(xyz);
  if (!is_spatial(xyz) || xyz.size(-1) == 3) return points;
  return at::constant_pad_nd(points, {0, 3 - xyz.size(-1)});
}

// Neighbor searches.

// `xyz` (B, N, 3), N >= `fewest`, and a second set of points (B, M, 3).
inline void check_search(const at::Tensor& xyz, const char* name, const at::Tensor& points,
                         const std::optional<at::Tensor>& lengths, int64_t fewest) {
  TORCH_CHECK_VALUE(xyz.dim() == 3 && xyz.size(2) == 3, "xyz: expected shape (B, N, 3), got ",
                    xyz.sizes());
  TORCH_CHECK_VALUE(xyz.size(1) >= fewest, "xyz: expected at least one point in a cloud, got ",
                    xyz.sizes());
  check_coordinates("xyz", xyz);
  TORCH_CHECK_VALUE(points.dim() == 3 && points.size(2) == 3 && points.size(0) == xyz.size(0), name,
                    ": expected shape (", xyz.size(0), ", M, 3), got ", points.sizes());
  check_coordinates(name, points);
  check_same_device(name, points, xyz);
  TORCH_CHECK_VALUE(std::max(xyz.size(1), points.size(1)) <= kMostPoints, "xyz, ", name,
                    ": expected at most ", kMostPoints, " points in a cloud, got ", xyz.sizes(),
                    " and ", points.sizes());
  check_per_cloud("lengths", lengths, xyz.size(0), xyz);
}

inline void check_k(int64_t k) { TORCH_CHECK_VALUE(k >= 1, "k: expected k >= 1, got ", k); }

inline void check_knn(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
                      const std::optional<at::Tensor>& lengths) {
  check_search(xyz, "queries", queries, lengths, 1);
  check_k(k);
}

inline void check_shell(double min_radius, double radius) {
  TORCH_CHECK_VALUE(radius > 0, "radius: expected a positive number, got ", radius);
  TORCH_CHECK_VALUE(min_radius >= 0 && min_radius < radius,
                    "min_radius: expected 0 <= min_radius < radius = ", radius, ", got ",
                    min_radius);
}

// `shells` (B, 2) are the inner and the outer radius of each cloud, instead of the numbers.
inline void check_ball_query(const at::Tensor& xyz, const at::Tensor& centers, double radius,
                             int64_t k, const std::optional<at::Tensor>& lengths, double min_radius,
                             const std::optional<at::Tensor>& shells) {
  check_search(xyz, "centers", centers, lengths, 1);
  check_k(k);
  if (!shells) return check_shell(min_radius, radius);
  TORCH_CHECK_TYPE(shells->scalar_type() == distance_type(xyz, centers), "radius: expected ",
                   distance_type(xyz, centers), ", got ", shells->scalar_type());
  TORCH_CHECK_VALUE(shells->dim() == 2 && shells->size(0) == xyz.size(0) && shells->size(1) == 2,
                    "radius: expected two for each of ", xyz.size(0), " clouds, got ",
                    shells->sizes());
  check_same_device("radius", *shells, xyz);
}

// Points nearer than the root of this are in the ball: computed as distances are.
template <class Real = float>
Real squared_radius(double radius) {
  const auto narrow = static_cast<Real>(radius);
  return narrow * narrow;
}

inline void check_nearest_sample(const at::Tensor& xyz, const at::Tensor& samples,
                                 const std::optional<at::Tensor>& lengths,
                                 const std::optional<at::Tensor>& sample_lengths) {
  check_search(xyz, "samples", samples, lengths, 0);
  check_per_cloud("sample_lengths", sample_lengths, xyz.size(0), xyz);
}

inline void check_count_points(const at::Tensor& assignment, int64_t m) {
  check_index_type("assignment", assignment);
  TORCH_CHECK_VALUE(assignment.dim() == 2, "assignment: expected shape (B, N), got ",
                    assignment.sizes());
  TORCH_CHECK_VALUE(m >= 0, "num_samples: expected a non-negative size, got ", m);
}

// Ops on channel-first features.

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
