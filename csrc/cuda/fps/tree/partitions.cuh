// One cloud in partitions: contiguous runs of leaves, a block for each, and what the blocks share.
#pragma once

#include "cuda/fps/argmax_key.cuh"
#include "cuda/fps/tree/layout.cuh"

namespace farpoint::cuda::tree {

constexpr int kMaxPartitions = 32;  // of a cloud: a bit and a lane for each
constexpr int kGroupLeaves = 32, kGroupPoints = kGroupLeaves * kLeaf;

// Most points of a partition of a cloud, in whole leaves.
__host__ __device__ inline int64_t points_of_partition(int64_t points, int partitions) {
  return ceil_div(ceil_div(points, kLeaf), partitions) * kLeaf;
}
// A partition has room for 1 << group_shift groups of leaves.
inline int group_shift(int64_t points, int partitions) {
  int shift = 0;
  while ((int64_t{kGroupPoints} << shift) < points_of_partition(points, partitions)) ++shift;
  return shift;
}

// Of all clouds of a batch, in global memory.
struct Partitions {
  int count;         // of a cloud, a power of two
  int group_shift;   // see group_shift()
  Box* group_boxes;  // (clouds, partitions, groups)
  unsigned* first;   // (clouds): kNoRow less the lowest finite row; 0 where none is, or unwanted
  // Zero before the blocks start. A part's samples in order, and what it publishes of itself: it
  // takes no more sample before key `~low`, and had `high` samples when it said so.
  Key* logs;     // (rows): those of a part from its first point on
  Words* words;  // (clouds, partitions)

  __host__ __device__ int groups() const { return count << group_shift; }
};

// Of one cloud, in equal shares but for the last.
struct Cuts {
  int points, per_part;

  __device__ Cuts(int points, int partitions)
      : points(points), per_part(static_cast<int>(points_of_partition(points, partitions))) {}

  __device__ int first_point(int part) const {
    return static_cast<int>(min(int64_t{part} * per_part, int64_t{points}));
  }
  __device__ int points_of(int part) const { return first_point(part + 1) - first_point(part); }
  __device__ int leaves_of(int part) const { return (points_of(part) + kLeaf - 1) / kLeaf; }
};

// The sample that all partitions start from: the start, or the lowest finite row where it is not
// finite.
__device__ inline PointRow first_sample(const Cloud& cloud, unsigned first) {
  const Point start = cloud.point(cloud.start);
  if (is_finite(start) || first == 0) return with_row(start, cloud.start);
  const int row = kNoRow - static_cast<int>(first);
  return with_row(cloud.point(row), row);
}

// Samples with a distance that the partitions of a cloud look for.
__device__ inline int wanted_of(const Cloud& cloud) {
  return cloud.distances ? cloud.m : cloud.m - 1;
}

// Samples the partitions of clouds whose leaves are made.
int run_partitioned(const FpsBatch& batch, const TreeShape& shape, const Storage& storage,
                    const Partitions& partitions, int device, void* stream);
// Makes one sample of the partitions' samples.
int merge_partitions(const FpsBatch& batch, const Storage& storage, const Partitions& partitions,
                     void* stream);

}  // namespace farpoint::cuda::tree
