// Argument checks of the neighbor searches, shared by all backends. See checks.h.
#pragma once

#include <algorithm>

#include "checks.h"

namespace farpoint {

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
  check_same_type(name, points, "xyz", xyz);
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

// `xyz` (sum N, 3), `queries` (sum M, 3), both offsets int64 (B + 1,).
inline void check_knn_ragged(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
                             const at::Tensor& offsets, const at::Tensor& query_offsets) {
  TORCH_CHECK_VALUE(xyz.dim() == 2 && xyz.size(1) == 3, "xyz: expected shape (N, 3), got ",
                    xyz.sizes());
  TORCH_CHECK_VALUE(xyz.size(0) <= kMostPoints, "xyz: expected at most ", kMostPoints,
                    " points, got ", xyz.sizes());
  check_coordinates("xyz", xyz);
  TORCH_CHECK_VALUE(queries.dim() == 2 && queries.size(1) == 3,
                    "queries: expected shape (M, 3), got ", queries.sizes());
  check_same_type("queries", queries, "xyz", xyz);
  check_k(k);
  TORCH_CHECK_VALUE(offsets.dim() == 1 && offsets.size(0) >= 1,
                    "offsets: expected shape (B + 1,), got ", offsets.sizes());
  check_index_type("offsets", offsets);
  check_index_type("query_offsets", query_offsets);
  TORCH_CHECK_VALUE(query_offsets.dim() == 1 && query_offsets.size(0) == offsets.size(0),
                    "query_offsets: expected shape (", offsets.size(0), ",), got ",
                    query_offsets.sizes());
}

inline void check_ball_query(const at::Tensor& xyz, const at::Tensor& centers, double radius,
                             int64_t k, const std::optional<at::Tensor>& lengths,
                             double min_radius) {
  check_search(xyz, "centers", centers, lengths, 1);
  TORCH_CHECK_VALUE(radius > 0, "radius: expected a positive number, got ", radius);
  TORCH_CHECK_VALUE(min_radius >= 0 && min_radius < radius,
                    "min_radius: expected 0 <= min_radius < radius = ", radius, ", got ",
                    min_radius);
  check_k(k);
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

}  // namespace farpoint
