// Scalar fallbacks for operations on lane masks, one bit a lane.
#pragma once

#include <cstdint>

namespace farpoint::cpu::FARPOINT_SIMD {

// The set bit whose value is lowest, the first of equal ones.
template <class Value>
inline int lowest_of(uint32_t bits, const Value* values) {
  int best = __builtin_ctz(bits);
  for (bits &= bits - 1; bits; bits &= bits - 1) {
    const int lane = __builtin_ctz(bits);
    if (values[lane] < values[best]) best = lane;
  }
  return best;
}

// As in simd_avx512.h.
#if FARPOINT_VECTOR_BYTES < 64
inline int lowest_lane(uint32_t bits, const int32_t* values) { return lowest_of(bits, values); }
inline int append(uint32_t bits, int32_t base, int32_t* out) {
  int count = 0;
  for (; bits; bits &= bits - 1) out[count++] = base + __builtin_ctz(bits);
  return count;
}
#endif

}  // namespace farpoint::cpu::FARPOINT_SIMD
