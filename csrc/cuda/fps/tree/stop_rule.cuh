// When a part may end: once all samples that are wanted of its cloud come before its next one.
#pragma once

#include "cuda/fps/tree/partitions.cuh"

namespace farpoint::cuda::tree {

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
