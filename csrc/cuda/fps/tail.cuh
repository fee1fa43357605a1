// Last samples of a cloud, once every finite point lies on a sample and all distances are 0: the
// rows left follow in index order, coincident points first, points that are not finite last.
#pragma once

#include "cuda/fps/cloud.cuh"

namespace farpoint::cuda {

struct TailShared {
  int of_warp[kWarp];  // as many warps as a block can have
};

// Appends the rows for which is_left(row) holds, ascending; returns how many samples there are now.
template <typename IsLeft>
__device__ int append_rows(const Cloud& cloud, int emitted, TailShared& shared, IsLeft is_left) {
  const int threads = blockDim.x;
  for (int begin = 0; begin < cloud.n && emitted < cloud.m; begin += threads) {
    const int row = begin + static_cast<int>(threadIdx.x);
    const bool left = row < cloud.n && is_left(row);
    const unsigned votes = __ballot_sync(kAllLanes, left);
    __syncthreads();
    if (lane_id() == 0) shared.of_warp[warp_id()] = __popc(votes);
    __syncthreads();
    int rank = emitted + __popc(votes & lanes_below());
    for (int w = 0; w < threads / kWarp; ++w) {
      rank += w < warp_id() ? shared.of_warp[w] : 0;
      emitted += shared.of_warp[w];
    }
    if (left && rank < cloud.m) {
      cloud.put_index(rank, row);
      cloud.put_distance(rank, 0.0f);
    }
  }
  return emitted;
}

// `taken(row)` tells whether the row is among the samples so far.
template <typename IsTaken>
__device__ void append_tail(const Cloud& cloud, int emitted, TailShared& shared, IsTaken is_taken) {
  emitted = append_rows(cloud, emitted, shared,
                        [&](int row) { return is_finite(cloud.point(row)) && !is_taken(row); });
  append_rows(cloud, emitted, shared,
              [&](int row) { return !is_finite(cloud.point(row)) && !is_taken(row); });
}

// Of a cloud that ended early.
__device__ inline void clear_rest(const Cloud& cloud, int emitted) {
  for (int k = emitted + static_cast<int>(threadIdx.x); k < cloud.m; k += blockDim.x) {
    cloud.indices[k] = -1;
    cloud.put_distance(k, 0.0f);
  }
}

// The same where the samples are marked in a bit for each row, which `bits` has room for.
__device__ inline void append_tail(const Cloud& cloud, int emitted, TailShared& shared,
                                   unsigned* bits) {
  if (emitted == cloud.m) return;
  for (int i = threadIdx.x; i <= (cloud.n - 1) / kWarp; i += blockDim.x) bits[i] = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < emitted; k += blockDim.x) {
    const int row = cloud.indices[k] - cloud.index_base;
    atomicOr(&bits[row / kWarp], 1u << row % kWarp);
  }
  __syncthreads();
  append_tail(cloud, emitted, shared,
              [&](int row) { return (bits[row / kWarp] >> row % kWarp & 1u) != 0; });
}

}  // namespace farpoint::cuda
