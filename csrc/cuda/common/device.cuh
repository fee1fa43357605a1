// Point arithmetic, warp reductions, dynamic shared memory and inline PTX for all kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

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

// The block's dynamic shared memory as one object.
template <typename T>
__device__ T& shared_as() {
  extern __shared__ __align__(16) unsigned char farpoint_shared[];
  return *reinterpret_cast<T*>(farpoint_shared);
}

// The highest set bit of a word that has one: one instruction, where 31 - __clz(v) is three.
__device__ inline int highest_bit(unsigned v) {
  int bit;
  asm("bfind.u32 %0, %1;" : "=r"(bit) : "r"(v));
  return bit;
}

// The same address, but how it came about is out of the compiler's sight: it keeps it in a register
// instead of working it out anew at every use.
template <typename T>
__device__ inline T* kept_global(T* p) {
  size_t at = __cvta_generic_to_global(p);
  asm volatile("" : "+l"(at));
  return static_cast<T*>(__cvta_global_to_generic(at));
}
template <typename T>
__device__ inline T* kept_shared(T* p) {
  auto at = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("" : "+r"(at));
  return static_cast<T*>(__cvta_shared_to_generic(at));
}
__device__ inline unsigned kept(unsigned v) {
  asm volatile("" : "+r"(v));
  return v;
}

// Memory that blocks of one launch share while they run. A load or store reaches the memory that
// all of them see, whole, and is ordered with nothing else: no thread waits for a fence.
struct alignas(16) Words {
  unsigned long long low, high;
};

__device__ inline unsigned long long load_relaxed(const unsigned long long* from) {
  unsigned long long v;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
  return v;
}
__device__ inline void store_relaxed(unsigned long long* to, unsigned long long v) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}
__device__ inline Words load_relaxed(const Words* from) {
  Words v;
  asm volatile(
      "{\n\t.reg .b128 %%words;\n\t"
      "ld.relaxed.gpu.global.b128 %%words, [%2];\n\t"
      "mov.b128 {%0, %1}, %%words;\n\t}"
      : "=l"(v.low), "=l"(v.high)
      : "l"(from)
      : "memory");
  return v;
}
__device__ inline void store_relaxed(Words* to, Words v) {
  asm volatile(
      "{\n\t.reg .b128 %%words;\n\t"
      "mov.b128 %%words, {%1, %2};\n\t"
      "st.relaxed.gpu.global.b128 [%0], %%words;\n\t}" ::"l"(to),
      "l"(v.low), "l"(v.high)
      : "memory");
}

// Adds to adjacent values in global memory, at an address aligned to them all, and does not wait
// for the sums. So many go at once.
template <typename Value>
constexpr int kAddedAtOnce = 1;
template <typename Value>
__device__ void add_at_once(Value* to, const Value (&v)[1]) {
  atomicAdd(to, v[0]);
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <>
constexpr int kAddedAtOnce<float> = 4;
__device__ inline void add_at_once(float* to, const float (&v)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v[0]),
               "f"(v[1]), "f"(v[2]), "f"(v[3])
               : "memory");
}
#endif

}  // namespace farpoint::cuda
