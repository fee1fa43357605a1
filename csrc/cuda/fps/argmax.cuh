// Block-wide argmax of distances, the lowest row on a tie.
#pragma once

#include "cuda/common/device.cuh"

namespace farpoint::cuda {

constexpr int kNoRow = 0x7fffffff;

struct Best {
  float distance;
  int row;
};

// Two sets, used in turn: a warp may write its next record while a slower one still reads the last.
template <int kWarps>
struct BestRecords {
  Best of_warp[2][kWarps];
};

// `row` counts only in lanes whose distance is the warp's largest.
__device__ inline Best warp_best(float distance, float largest, int row) {
  return {largest, warp_min(distance == largest ? row : kNoRow)};
}

// Warps must own ascending ranges of rows: then the first warp with the largest distance holds
// the lowest row. One barrier; every thread gets the result.
template <int kWarps>
__device__ Best block_best(Best mine, BestRecords<kWarps>& records, int turn) {
  if constexpr (kWarps == 1) return mine;
  Best* const shared = records.of_warp[turn % 2];
  if (lane_id() == 0) shared[warp_id()] = mine;
  __syncthreads();
  const bool holds = lane_id() < kWarps;
  const Best theirs = holds ? shared[lane_id()] : Best{0.0f, kNoRow};
  const float largest = warp_max(theirs.distance);
  const unsigned winners = __ballot_sync(kAllLanes, holds && theirs.distance == largest);
  return {largest, __shfl_sync(kAllLanes, theirs.row, __ffs(winners) - 1)};
}

}  // namespace farpoint::cuda
