// CPU stand-in for csrc/cuda/common/ptx.cuh.
#pragma once
#define FARPOINT_CUDA_PTX_CUH

#include <cuda_runtime.h>

namespace farpoint::cuda {

template <typename T>
T& shared_as() {
  return *reinterpret_cast<T*>(model::shared_memory());
}

inline int highest_bit(unsigned v) { return 31 - __clz(static_cast<int>(v)); }

template <typename T>
T* kept_global(T* p) {
  return p;
}
template <typename T>
T* kept_shared(T* p) {
  return p;
}
inline unsigned kept(unsigned v) { return v; }

struct alignas(16) Words {
  unsigned long long low, high;
};
template <typename T>
T load_relaxed(const T* from) {
  return *from;
}
template <typename T>
void store_relaxed(T* to, T v) {
  *to = v;
}

inline void count_leaf() { model::leaves += model::here.thread % 32 == 0; }

template <typename Value>
constexpr int kAddedAtOnce = 1;
template <>
constexpr int kAddedAtOnce<float> = 4;
template <typename Value, int kCount>
void add_at_once(Value* to, const Value (&v)[kCount]) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof v != 0) model::fail("a reduction is not aligned");
  for (int i = 0; i < kCount; ++i) to[i] += v[i];
}

}  // namespace farpoint::cuda
