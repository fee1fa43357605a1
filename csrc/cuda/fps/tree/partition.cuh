// One cloud in parts: contiguous runs of leaves, a block for each, and what the blocks share.
#pragma once

#include "cuda/fps/argmax_key.cuh"
#include "cuda/fps/tree/layout.cuh"
#include "cuda/fps/tree/parts.h"

namespace farpoint::cuda::tree {

constexpr int kGroupLeaves = kGroupPoints / kLeaf;

// Of all clouds of a batch, in global memory.
struct Parts {
  int count;         // of a cloud, a power of two
  int group_shift;   // a part has room for 1 << group_shift groups of 32 leaves
  Box* group_boxes;  // (clouds, parts, groups)
  unsigned* first;   // (clouds): kNoRow less the lowest finite row; 0 where none is, or unwanted
  // Zero before the blocks start. A part's samples in order, and what it tells of itself: it takes
  // no more sample before key `~low`, and had `high` samples when it said so.
  Key* logs;     // (rows): those of a part from its first point on
  Words* words;  // (clouds, parts)

  __host__ __device__ int groups() const { return count << group_shift; }
};

// Of one cloud, in equal shares but for the last.
struct Partition {
  int points, per_part;

  __device__ Partition(int points, int parts)
      : points(points), per_part(static_cast<int>(points_of_part(points, parts))) {}

  __device__ int first_point(int part) const {
    return static_cast<int>(min(int64_t{part} * per_part, int64_t{points}));
  }
  __device__ int points_of(int part) const { return first_point(part + 1) - first_point(part); }
  __device__ int leaves_of(int part) const { return (points_of(part) + kLeaf - 1) / kLeaf; }
};

// The sample that all parts start from: the start, or the lowest finite row where it is not finite.
__device__ inline PointRow first_sample(const Cloud& cloud, unsigned first) {
  const Point start = cloud.point(cloud.start);
  if (is_finite(start) || first == 0) return with_row(start, cloud.start);
  const int row = kNoRow - static_cast<int>(first);
  return with_row(cloud.point(row), row);
}

// Samples with a distance that the parts of a cloud look for.
__device__ inline int wanted_of(const Cloud& cloud) {
  return cloud.distances ? cloud.m : cloud.m - 1;
}

}  // namespace farpoint::cuda::tree
