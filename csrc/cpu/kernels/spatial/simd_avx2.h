// SIMD type of sixteen floats in two AVX2 registers. The three simd_*.h offer the same names.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace farpoint::cpu::FARPOINT_SIMD {

constexpr int kRegisterBytes = 32;

struct Lanes {
  __m256 a, b;
};

inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Lanes v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
inline Lanes broadcast(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
inline Lanes sub(Lanes x, Lanes y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline Lanes mul(Lanes x, Lanes y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline Lanes fma(Lanes x, Lanes y, Lanes z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline Lanes min(Lanes x, Lanes y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline Lanes max(Lanes x, Lanes y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }

inline uint32_t bits_of(__m256 a, __m256 b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(a)) | static_cast<uint32_t>(_mm256_movemask_ps(b))
                                                            << 8;
}
// One bit a lane.
inline uint32_t less(Lanes x, Lanes y) {
  return bits_of(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ));
}
inline uint32_t equal(Lanes x, Lanes y) {
  return bits_of(_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ));
}

inline float first(Lanes v) { return _mm256_cvtss_f32(v.a); }
inline float largest(Lanes v) {
  const __m256 w = _mm256_max_ps(v.a, v.b);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
inline float smallest(Lanes v) {
  const __m256 w = _mm256_min_ps(v.a, v.b);
  __m128 q = _mm_min_ps(_mm256_castps256_ps128(w), _mm256_extractf128_ps(w, 1));
  q = _mm_min_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_min_ss(q, _mm_movehdup_ps(q)));
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
