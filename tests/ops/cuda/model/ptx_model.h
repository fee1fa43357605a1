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
inline void load_together(float&, float&, float&, float&) {}

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

enum class Work { kLeaves, kNodes, kOfOthers };
inline void tally(Work work, int amount) {
  if (model::here.thread % 32 == 0) model::work[static_cast<int>(work)] += amount;
}
inline void add_four(float* to, float4 v) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) model::fail("a vector reduction is not aligned");
  to[0] += v.x;
  to[1] += v.y;
  to[2] += v.z;
  to[3] += v.w;
}

}  // namespace farpoint::cuda
