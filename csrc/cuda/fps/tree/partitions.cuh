// One cloud in partitions: contiguous runs of leaves, a block for each, and what the blocks share.
#pragma once

#include "cuda/fps/argmax.cuh"
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

// Samples in a log before `key`. An entry that is not visible yet counts as one that comes later.
__device__ inline int samples_before(const Key* log, int count, Key key) {
  int low = 0;
  while (low < count) {
    const int middle = (low + count) / 2;
    if (load_relaxed(log + middle) > key) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

class StopRule {
 public:
  // `shared` is a word of the block's.
  __device__ StopRule(const Partitions& partitions, const Cloud& cloud, int b, int self,
                      int& shared)
      : words_(partitions.words + int64_t{b} * partitions.count),
        logs_(partitions.logs + cloud.first_row),
        cuts_(cloud.n, partitions.count),
        partitions_(partitions.count),
        self_(self),
        wanted_(wanted_of(cloud)),
        shared_(shared) {}

  // Called by the whole block, whose part has so many samples and would take `key` next. Looks anew
  // when half of what was missing may be there.
  __device__ bool is_reached(Key key, int sampled) {
    if (sampled < next_look_) return false;
    if (warp_id() == 0) {
      const int before = known_before(key, sampled);
      if (lane_id() == 0) shared_ = before;
    }
    __syncthreads();
    const int before = shared_;
    next_look_ = sampled + 1 + max(0, wanted_ - before) / (2 * partitions_);
    return before >= wanted_;
  }

 private:
  // Samples of all partitions, and only those before `key` where they might be enough. By one warp,
  // a lane for a part: another warp might see more.
  __device__ int known_before(Key key, int sampled) const {
    const int part = min(lane_id(), partitions_ - 1);
    int count = part == self_ ? sampled : static_cast<int>(load_relaxed(words_ + part).high);
    if (lane_id() >= partitions_) count = 0;
    const int all = __reduce_add_sync(kAllLanes, count);
    if (all < wanted_) return all;
    const Key* const log = logs_ + cuts_.first_point(part);
    return __reduce_add_sync(kAllLanes, part == self_ ? count : samples_before(log, count, key));
  }

  const Words* const words_;
  const Key* const logs_;
  const Cuts cuts_;
  const int partitions_, self_, wanted_;
  int& shared_;
  int next_look_ = 0;
};

}  // namespace farpoint::cuda::tree
