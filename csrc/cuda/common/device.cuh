// Point arithmetic and warp reductions for all kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/common/ptx.cuh"

namespace farpoint::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Point {
  float x, y, z;
};

__device__ inline int lane_id() { return threadIdx.x % kWarp; }
__device__ inline int warp_id() { return threadIdx.x / kWarp; }

__device__ inline Point load_point(const float* xyz, int64_t row) {
  return {xyz[3 * row], xyz[3 * row + 1], xyz[3 * row + 2]};
}

// The rounding of every step is spelled out: the same bits on every backend and architecture.
__device__ inline float squared_distance(Point p, Point s) {
  const float dx = __fsub_rn(p.x, s.x);
  const float dy = __fsub_rn(p.y, s.y);
  const float dz = __fsub_rn(p.z, s.z);
  return __fmaf_rn(dz, dz, __fmaf_rn(dy, dy, __fmul_rn(dx, dx)));
}

__device__ inline bool is_finite(float v) {
  return (__float_as_uint(v) & 0x7f800000u) != 0x7f800000u;
}
__device__ inline bool is_finite(Point p) {
  return is_finite(p.x) && is_finite(p.y) && is_finite(p.z);
}
// The same without branches, which costs the block kernel registers: 0 times what is not finite is
// not 0.
__device__ inline bool all_finite(Point p) {
  return __fmaf_rn(p.x, 0.0f, __fmaf_rn(p.y, 0.0f, __fmul_rn(p.z, 0.0f))) == 0.0f;
}

__device__ inline float infinity() { return __uint_as_float(0x7f800000u); }

// Non-negative floats order as their bits do, and only integers have a one-instruction warp
// maximum.
__device__ inline float warp_max(float v) {
  return __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(v)));
}
__device__ inline int warp_min(int v) { return __reduce_min_sync(kAllLanes, v); }

// The values of all lanes, ascending: a bitonic sort.
template <typename T>
__device__ T warp_sorted(T v) {
  for (int run = 2; run <= kWarp; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      const T other = __shfl_xor_sync(kAllLanes, v, step);
      const bool lower = (lane_id() & step) == 0, ascends = (lane_id() & run) == 0;
      v = lower == ascends ? min(v, other) : max(v, other);
    }
  }
  return v;
}

__device__ inline unsigned lanes_below() { return (1u << lane_id()) - 1u; }

__device__ inline int ordered(float v) {
  const int bits = __float_as_int(v);
  return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ inline float from_ordered(int v) { return __int_as_float(v ^ (v >> 31 & 0x7fffffff)); }

}  // namespace farpoint::cuda
