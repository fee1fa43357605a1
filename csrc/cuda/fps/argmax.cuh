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
  alignas(16) Best of_warp[2][kWarps];
};

// Rows ascend with warps, so among equal distances that of the first warp stays. Every thread
// compares all records, a pair of them in one load: up to four, sooner than two reductions do.
template <int kWarps>
__device__ Best best_of_few(const Best* records) {
  Best best[kWarps];
#pragma unroll
  for (int w = 0; w < kWarps; ++w) best[w] = records[w];
#pragma unroll
  for (int step = 1; step < kWarps; step *= 2) {
#pragma unroll
    for (int w = 0; w < kWarps; w += 2 * step) {
      const Best later = best[w + step];
      best[w].row = later.distance > best[w].distance ? later.row : best[w].row;
      best[w].distance = fmaxf(later.distance, best[w].distance);
    }
  }
  return best[0];
}

template <int kWarps>
__device__ Best best_of_many(const Best* records) {
  const Best one = records[lane_id() % kWarps];
  const float largest = warp_max(one.distance);
  return {largest, warp_min(one.distance == largest ? one.row : kNoRow)};
}

// One barrier; every thread gets the result.
template <int kWarps>
__device__ Best block_best(Best mine, BestRecords<kWarps>& records, int turn) {
  if constexpr (kWarps == 1) {
    return mine;
  } else {
    Best* const shared = records.of_warp[turn % 2];
    if (lane_id() == 0) shared[warp_id()] = mine;
    __syncthreads();
    return kWarps > 4 ? best_of_many<kWarps>(shared) : best_of_few<kWarps>(shared);
  }
}

}  // namespace farpoint::cuda
