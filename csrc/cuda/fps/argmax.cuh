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

// One barrier; every thread gets the result.
template <int kWarps>
__device__ Best block_best(Best mine, BestRecords<kWarps>& records, int turn) {
  if constexpr (kWarps == 1) return mine;
  Best* const shared = records.of_warp[turn % 2];
  if (lane_id() == 0) shared[warp_id()] = mine;
  __syncthreads();
  const Best theirs = lane_id() < kWarps ? shared[lane_id()] : Best{0.0f, kNoRow};
  return warp_best(theirs.distance, warp_max(theirs.distance), theirs.row);
}

}  // namespace farpoint::cuda
