// Packed 64-bit argmax key (squared distance, row): the largest key is the farthest point, the
// lowest row on a tie, in whatever order it is reduced. Key 0 and every key with distance 0 mean
// "nobody".
#pragma once

#include "cuda/common/device.cuh"

namespace farpoint::cuda {

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
