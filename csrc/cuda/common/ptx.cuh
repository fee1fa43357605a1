// Dynamic shared memory and inline PTX.
#ifndef FARPOINT_CUDA_PTX_CUH
#define FARPOINT_CUDA_PTX_CUH

#include <cuda_runtime.h>

#include <cstdint>

namespace farpoint::cuda {

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

#endif
