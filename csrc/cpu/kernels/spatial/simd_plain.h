// SIMD type of sixteen floats in an array, for any processor. The three simd_*.h offer the same
// names.
#pragma once

#include <cmath>
#include <cstdint>

namespace farpoint::cpu::FARPOINT_SIMD {

constexpr int kRegisterBytes = 16;

struct Lanes {
  float v[16];
};

template <class F>
inline Lanes each(F f) {
  Lanes r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}
template <class F>
inline uint32_t bits_where(F f) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(f(i)) << i;
  return bits;
}

inline Lanes load(const float* p) {
  return each([=](int i) { return p[i]; });
}
inline void store(float* p, const Lanes& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
inline Lanes broadcast(float v) {
  return each([=](int) { return v; });
}
inline Lanes sub(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Lanes mul(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline Lanes min(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes max(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
// One bit a lane.
inline uint32_t less(const Lanes& a, const Lanes& b) {
  return bits_where([&](int i) { return a.v[i] < b.v[i]; });
}
inline uint32_t equal(const Lanes& a, const Lanes& b) {
  return bits_where([&](int i) { return a.v[i] == b.v[i]; });
}
inline float first(const Lanes& v) { return v.v[0]; }
inline float largest(const Lanes& a) {
  float r = a.v[0];
  for (float v : a.v) r = v > r ? v : r;
  return r;
}
inline float smallest(const Lanes& a) {
  float r = a.v[0];
  for (float v : a.v) r = v < r ? v : r;
  return r;
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
