// Argument checks of the neighbor searches, shared by all backends. See checks.h.
#pragma once

#include "checks.h"

namespace farpoint {

// A second set of points (B, M, 3) beside `xyz`.
inline void check_points_beside(const char* name, const at::Tensor& points, const at::Tensor& xyz) {
  TORCH_CHECK_VALUE(points.dim() == 3 && points.size(2) == 3 && points.size(0) == xyz.size(0), name,
                    ": expected shape (", xyz.size(0), ", M, 3), got ", points.sizes());
  TORCH_CHECK_TYPE(points.scalar_type() == xyz.scalar_type(), name, ": expected ",
                   xyz.scalar_type(), " as xyz, got ", points.scalar_type());
  check_same_device(name, points, xyz);
}

// Distances are differentiable, so float64 is allowed: gradients are checked in it.
inline void check_knn(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
                      const std::optional<at::Tensor>& lengths) {
  check_cloud_shape(xyz);
  if (xyz.scalar_type() != at::kDouble) check_coordinates("xyz", xyz);
  check_points_beside("queries", queries, xyz);
  TORCH_CHECK_VALUE(k >= 1 && k <= xyz.size(1), "k: expected 1 <= k <= N = ", xyz.size(1), ", got ",
                    k);
  check_per_cloud("lengths", lengths, xyz.size(0), xyz);
}

inline void check_ball_query(const at::Tensor& xyz, const at::Tensor& centers, double radius,
                             int64_t k, const std::optional<at::Tensor>& lengths) {
  check_clouds(xyz);
  check_points_beside("centers", centers, xyz);
  TORCH_CHECK_VALUE(radius > 0, "radius: expected a positive number, got ", radius);
  TORCH_CHECK_VALUE(k >= 1, "k: expected k >= 1, got ", k);
  check_per_cloud("lengths", lengths, xyz.size(0), xyz);
}

// Points nearer than the root of this are in the ball: float32, as distances are.
inline float squared_radius(double radius) {
  const auto narrow = static_cast<float>(radius);
  return narrow * narrow;
}

inline void check_nearest_sample(const at::Tensor& xyz, const at::Tensor& samples,
                                 const std::optional<at::Tensor>& lengths,
                                 const std::optional<at::Tensor>& sample_lengths) {
  check_clouds(xyz);
  check_points_beside("samples", samples, xyz);
  TORCH_CHECK_VALUE(samples.size(1) >= 1, "samples: expected at least one point in a cloud, got ",
                    samples.sizes());
  check_per_cloud("lengths", lengths, xyz.size(0), xyz);
  check_per_cloud("sample_lengths", sample_lengths, xyz.size(0), xyz);
}

inline void check_count_points(const at::Tensor& assignment, int64_t m) {
  check_index_type("assignment", assignment);
  TORCH_CHECK_VALUE(assignment.dim() == 2, "assignment: expected shape (B, N), got ",
                    assignment.sizes());
  TORCH_CHECK_VALUE(m >= 0, "m: expected a non-negative size, got ", m);
}

}  // namespace farpoint
