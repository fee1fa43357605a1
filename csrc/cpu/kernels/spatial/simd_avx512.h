// SIMD type of sixteen floats in one AVX-512 register. The three simd_*.h offer the same names.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace farpoint::cpu::FARPOINT_SIMD {

constexpr int kRegisterBytes = 64;

using Lanes = __m512;

inline Lanes load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Lanes v) { _mm512_storeu_ps(p, v); }
inline Lanes broadcast(float v) { return _mm512_set1_ps(v); }
inline Lanes sub(Lanes a, Lanes b) { return _mm512_sub_ps(a, b); }
inline Lanes mul(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes min(Lanes a, Lanes b) { return _mm512_min_ps(a, b); }
inline Lanes max(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
// One bit a lane.
inline uint32_t less(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline uint32_t equal(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
inline float first(Lanes v) { return _mm512_cvtss_f32(v); }
inline float largest(Lanes v) { return _mm512_reduce_max_ps(v); }
inline float smallest(Lanes v) { return _mm512_reduce_min_ps(v); }

// The set bit, of sixteen, whose value is lowest.
inline int lowest_lane(uint32_t bits, const int32_t* values) {
  const __mmask16 some = static_cast<__mmask16>(bits);
  const __m512i v = _mm512_mask_loadu_epi32(_mm512_set1_epi32(INT32_MAX), some, values);
  const __m512i lowest = _mm512_set1_epi32(_mm512_reduce_min_epi32(v));
  return __builtin_ctz(_mm512_mask_cmpeq_epi32_mask(some, v, lowest));
}

// Writes base + lane for each set bit, lowest first, and returns how many. May write 16 values.
inline int append(uint32_t bits, int32_t base, int32_t* out) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i ids = _mm512_add_epi32(_mm512_set1_epi32(base), lanes);
  _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), ids));
  return __builtin_popcount(bits);
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
