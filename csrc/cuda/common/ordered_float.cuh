// Order-preserving mapping between floats and signed integers.
#pragma once

#include "cuda/common/device.cuh"

namespace farpoint::cuda {

__device__ inline int ordered(float v) {
  const int bits = __float_as_int(v);
  return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ inline float from_ordered(int v) { return __int_as_float(v ^ (v >> 31 & 0x7fffffff)); }

}  // namespace farpoint::cuda
