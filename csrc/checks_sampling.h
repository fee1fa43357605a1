// Argument checks of farthest point sampling, shared by all backends, and the form in which
// coordinates are sampled. See checks.h.
#pragma once

#include <ATen/Functions.h>

#include "checks.h"

namespace farpoint {

constexpr int64_t kMostDimensions = 64;

// (B, N, D) or (N, D): D from 1 to 64, of a type that is computed in.
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

// Distances (B, N, N), from the point of the row to the point of the column.
inline void check_distance_matrix(const at::Tensor& distances, int64_t m,
                                  const std::optional<at::Tensor>& start,
                                  const std::optional<at::Tensor>& lengths) {
  TORCH_CHECK_VALUE(distances.dim() == 3 && distances.size(1) == distances.size(2),
                    "distances: expected shape (B, N, N), got ", distances.sizes());
  TORCH_CHECK_VALUE(distances.size(1) >= 1,
                    "distances: expected at least one point in a cloud, got ", distances.sizes());
  check_coordinates("distances", distances);
  check_sample_count(m, distances.size(1));
  check_per_cloud("start", start, distances.size(0), distances);
  check_per_cloud("lengths", lengths, distances.size(0), distances);
}

// Up to three dimensions in float32 have kernels of their own: a dimension that is 0 everywhere
// adds nothing to a distance, since fma(0, 0, d) is d.
inline bool is_spatial(const at::Tensor& xyz) {
  return xyz.scalar_type() != at::kDouble && xyz.size(-1) <= 3;
}

// Contiguous float32 or float64, with three dimensions where there are fewer.
inline at::Tensor sampled_coordinates(const at::Tensor& xyz) {
  const auto points = xyz.to(distance_type(xyz));
  if (!is_spatial(xyz) || xyz.size(-1) == 3) return points.contiguous();
  return at::constant_pad_nd(points, {0, 3 - xyz.size(-1)}).contiguous();
}

}  // namespace farpoint
