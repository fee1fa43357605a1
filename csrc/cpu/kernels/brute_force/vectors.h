// Vectors of FARPOINT_VECTOR_BYTES of floats or doubles: GCC's vector types, and what those lack.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>
#include <cstring>

namespace farpoint::cpu::brute_force::FARPOINT_SIMD {

template <class Real>
struct VectorOf {
  typedef Real type __attribute__((vector_size(FARPOINT_VECTOR_BYTES)));
  static constexpr int kLanes = FARPOINT_VECTOR_BYTES / sizeof(Real);
};
template <class Real>
using Vector = typename VectorOf<Real>::type;
template <class Real>
using Mask = decltype(Vector<Real>{} < Vector<Real>{});

template <class Real>
inline Vector<Real> load_vector(const Real* from) {
  Vector<Real> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <class Real>
inline void store_vector(Real* to, Vector<Real> v) {
  std::memcpy(to, &v, sizeof(v));
}

// a * b + c, rounded once; and whether a lane of a is less than that of b.
#if FARPOINT_VECTOR_BYTES == 64
inline Vector<float> multiply_add(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
inline bool any_less(Vector<float> a, Vector<float> b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0;
}
inline bool any_less(Vector<double> a, Vector<double> b) {
  return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ) != 0;
}
#elif FARPOINT_VECTOR_BYTES == 32
inline Vector<float> multiply_add(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline bool any_less(Vector<float> a, Vector<float> b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0;
}
inline bool any_less(Vector<double> a, Vector<double> b) {
  return _mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ)) != 0;
}
#else
template <class V>
inline V multiply_add(V a, V b, V c) {
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) a[i] = std::fma(a[i], b[i], c[i]);
  return a;
}
template <class V>
inline bool any_less(V a, V b) {
  bool any = false;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) any |= a[i] < b[i];
  return any;
}
#endif

}  // namespace farpoint::cpu::brute_force::FARPOINT_SIMD
