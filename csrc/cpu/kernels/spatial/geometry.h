// SIMD point distances as the contract defines them, and the bounding box of a cloud.
#pragma once

#include <cstring>

#include FARPOINT_LANES

namespace farpoint::cpu::FARPOINT_SIMD {

// x, y, z and a spare lane: GCC and Clang turn these into whatever registers there are.
typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

inline Float4 load4(const float* p) {
  Float4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline Float4 min4(Float4 a, Float4 b) { return a < b ? a : b; }
inline Float4 max4(Float4 a, Float4 b) { return a > b ? a : b; }

struct Point {
  Lanes x, y, z;
};

inline Point broadcast_point(const float* p) {
  return {broadcast(p[0]), broadcast(p[1]), broadcast(p[2])};
}

inline Lanes squared_norm(Lanes dx, Lanes dy, Lanes dz) {
  return fma(dz, dz, fma(dy, dy, mul(dx, dx)));
}

inline Lanes squared_distance(const float* x, const float* y, const float* z, const Point& s) {
  return squared_norm(sub(load(x), s.x), sub(load(y), s.y), sub(load(z), s.z));
}

struct Bounds {
  Float4 low, high;  // lane 3 is unused
};

// v - v is 0 for a finite v, NaN for any other.
inline uint32_t finite_lanes(Lanes v) { return equal(sub(v, v), broadcast(0.f)); }
inline bool is_finite(float v) { return v - v == 0.f; }

// Of n >= 1 rows of 3, into `b`; false where a value is not finite. Sixteen rows are three
// registers in which lane l holds axis l % 3.
inline bool finite_bounds(const float* xyz, int64_t n, Bounds& b) {
  b.low = b.high = Float4{xyz[0], xyz[1], xyz[2], 0};
  const auto widen = [&b](int axis, float low, float high) {
    b.low[axis] = low < b.low[axis] ? low : b.low[axis];
    b.high[axis] = high > b.high[axis] ? high : b.high[axis];
  };
  const int64_t blocks = n / 16;
  if (blocks > 0) {
    Lanes low[3], high[3];
    for (int k = 0; k < 3; ++k) low[k] = high[k] = load(xyz + 16 * k);
    for (int64_t i = 0; i < 48 * blocks; i += 48) {
      uint32_t finite = 0xffff;
      for (int k = 0; k < 3; ++k) {
        const Lanes v = load(xyz + i + 16 * k);
        finite &= finite_lanes(v);
        low[k] = min(low[k], v);
        high[k] = max(high[k], v);
      }
      if (finite != 0xffff) return false;
    }
    float l[48], h[48];
    for (int k = 0; k < 3; ++k) store(l + 16 * k, low[k]), store(h + 16 * k, high[k]);
    for (int i = 0; i < 48; ++i) widen(i % 3, l[i], h[i]);
  }
  for (int64_t i = 48 * blocks; i < 3 * n; ++i) {
    if (!is_finite(xyz[i])) return false;
    widen(i % 3, xyz[i], xyz[i]);
  }
  return true;
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
