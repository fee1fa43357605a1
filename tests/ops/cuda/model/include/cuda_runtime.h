// CPU stand-in for <cuda_runtime.h>, as far as csrc/cuda uses it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "machine.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __restrict__

using std::fma;
using std::max;
using std::min;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1) : x(x_) {}
};

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct IndexOf {
  unsigned model::Position::* member;
  operator unsigned() const { return model::here.*member; }
};
struct Indices {
  IndexOf x;
};
inline constexpr Indices threadIdx{{&model::Position::thread}};
inline constexpr Indices blockIdx{{&model::Position::block}};
inline constexpr Indices blockDim{{&model::Position::threads}};
inline constexpr Indices gridDim{{&model::Position::blocks}};

// Host side.
using cudaStream_t = struct Stream*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorLaunchFailure = 719 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrCooperativeLaunch,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  union {
    int cooperative;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return model::failure(); }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? model::processors()
           : attribute == cudaDevAttrCooperativeLaunch ? 1
                                                       : 227 * 1024;
  return cudaSuccess;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  static_assert((std::is_same_v<Parameters, Arguments> && ...));
  const bool at_once = config->numAttrs > 0 && config->attrs->val.cooperative != 0;
  const model::Launch launch = {config->gridDim.x, config->blockDim.x, config->dynamicSmemBytes,
                                at_once};
  const auto translated = model::translation(reinterpret_cast<const void*>(kernel));
  const void* const parameters[] = {&arguments...};
  const int code = model::run(launch, [&] {
    if (translated) {
      translated(parameters);
    } else {
      kernel(arguments...);
    }
  });
  return code ? cudaErrorLaunchFailure : cudaSuccess;
}

// Device side: arithmetic with the rounding of each step.
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline unsigned __float_as_uint(float v) {
  unsigned bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
inline int __float_as_int(float v) { return static_cast<int>(__float_as_uint(v)); }
inline float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(unsigned v) { return __builtin_ffs(static_cast<int>(v)); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
template <typename T>
T __ldg(const T* p) {
  return *p;
}
template <typename T>
T __ldcg(const T* p) {
  return *p;
}

// Warps and blocks.
inline void __syncthreads() { model::block_barrier(); }
inline void __syncwarp() { model::warp_exchange("syncwarp", 0); }
inline void __threadfence() {}

template <typename T>
uint64_t to_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T, typename Fold>
T warp_fold(const char* what, T mine, Fold fold) {
  const uint64_t* const all = model::warp_exchange(what, to_bits(mine));
  T result = from_bits<T>(all[0]);
  for (int lane = 1; lane < 32; ++lane) result = fold(result, from_bits<T>(all[lane]));
  return result;
}
template <typename T>
T __reduce_max_sync(unsigned, T mine) {
  return warp_fold("max", mine, [](T a, T b) { return std::max(a, b); });
}
template <typename T>
T __reduce_min_sync(unsigned, T mine) {
  return warp_fold("min", mine, [](T a, T b) { return std::min(a, b); });
}
template <typename T>
T __reduce_add_sync(unsigned, T mine) {
  return warp_fold("add", mine, [](T a, T b) { return static_cast<T>(a + b); });
}
template <typename T>
unsigned __match_any_sync(unsigned, T mine) {
  const uint64_t* const all = model::warp_exchange("match", to_bits(mine));
  unsigned equal = 0;
  for (int lane = 0; lane < 32; ++lane) equal |= unsigned{all[lane] == to_bits(mine)} << lane;
  return equal;
}
inline unsigned __ballot_sync(unsigned, bool mine) {
  const uint64_t* const all = model::warp_exchange("ballot", mine);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= static_cast<unsigned>(all[lane]) << lane;
  return votes;
}
inline bool __any_sync(unsigned lanes, bool mine) { return __ballot_sync(lanes, mine) != 0; }
template <typename T>
T __shfl_sync(unsigned, T mine, int lane) {
  return from_bits<T>(model::warp_exchange("shfl", to_bits(mine))[lane % 32]);
}
template <typename T>
T __shfl_xor_sync(unsigned, T mine, int mask) {
  const unsigned lane = model::here.thread % 32;
  return from_bits<T>(model::warp_exchange("shfl_xor", to_bits(mine))[lane ^ mask]);
}
template <typename T>
T __shfl_up_sync(unsigned, T mine, int step) {
  const int lane = static_cast<int>(model::here.thread % 32);
  const uint64_t* const all = model::warp_exchange("shfl_up", to_bits(mine));
  return from_bits<T>(all[lane < step ? lane : lane - step]);
}
template <typename T>
T __shfl_down_sync(unsigned, T mine, int step) {
  const int lane = static_cast<int>(model::here.thread % 32);
  const uint64_t* const all = model::warp_exchange("shfl_down", to_bits(mine));
  return from_bits<T>(all[lane + step > 31 ? lane : lane + step]);
}

// A fiber runs undisturbed between waits, so plain operations are atomic.
template <typename T>
T atomicAdd(T* p, T v) {
  const T old = *p;
  *p = old + v;
  return old;
}
template <typename T>
T atomicMax(T* p, T v) {
  const T old = *p;
  *p = std::max(old, v);
  return old;
}
template <typename T>
T atomicMin(T* p, T v) {
  const T old = *p;
  *p = std::min(old, v);
  return old;
}
inline unsigned atomicOr(unsigned* p, unsigned v) {
  const unsigned old = *p;
  *p = old | v;
  return old;
}
