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

using Key = unsigned long long;

// Ranks a finite start row before every rival of the first sample.
constexpr unsigned kAboveInfinity = 0x7f800001u;

__device__ inline Key key_of(unsigned distance_bits, int row) {
  return Key{distance_bits} << 32 | ~static_cast<unsigned>(row);
}
__device__ inline Key key_of(float distance, int row) {
  return key_of(__float_as_uint(distance), row);
}
__device__ inline unsigned distance_bits(Key key) { return static_cast<unsigned>(key >> 32); }
__device__ inline float distance_of(Key key) { return __uint_as_float(distance_bits(key)); }
__device__ inline int row_of(Key key) { return static_cast<int>(~static_cast<unsigned>(key)); }

__device__ inline Key larger(Key a, Key b) { return a > b ? a : b; }

__device__ inline Key warp_largest(Key mine) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    mine = larger(mine, __shfl_xor_sync(kAllLanes, mine, step));
  }
  return mine;
}

// The key with which a row competes for the first sample.
__device__ inline Key first_key(Point p, int row, int start) {
  if (!is_finite(p)) return 0;
  return key_of(row == start ? kAboveInfinity : __float_as_uint(infinity()), row);
}

}  // namespace farpoint::cuda
