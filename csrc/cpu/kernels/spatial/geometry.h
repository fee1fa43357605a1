// SIMD point distances as the contract defines them, the bounding box of a cloud, and a grid over
// it.
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

constexpr int kMaxBits = 12;

// 2^bits cells over a box, numbered along a Morton curve that halves the longest side first, so
// that cells stay near cubic whatever the shape of the box.
class Grid {
 public:
  void fit(const Bounds& bounds, int bits);
  int cells() const { return 1 << bits_; }

  int cell_of(Float4 p) const {
    const Int4 step = __builtin_convertvector(min4((p - low_) * scale_, last_), Int4);
    return table_[0][step[0]] | table_[1][step[1]] | table_[2][step[2]];
  }

 private:
  int bits_ = 0;
  Float4 low_, scale_, last_;
  uint16_t table_[3][1 << kMaxBits];  // each axis' share of the cell number
};

inline void Grid::fit(const Bounds& bounds, int bits) {
  bits_ = bits;
  low_ = bounds.low;
  const Float4 extent = bounds.high - bounds.low;
  Float4 side = extent;
  int axis_of[kMaxBits];  // from the most significant bit down
  for (int b = 0; b < bits; ++b) {
    int axis = side[1] > side[0] ? 1 : 0;
    if (side[2] > side[axis]) axis = 2;
    axis_of[b] = axis;
    side[axis] *= 0.5f;
  }
  int steps[3] = {1, 1, 1};
  for (int axis = 0; axis < 3; ++axis) table_[axis][0] = 0;
  for (int b = bits - 1; b >= 0; --b) {
    uint16_t* table = table_[axis_of[b]];
    int& filled = steps[axis_of[b]];
    for (int v = 0; v < filled; ++v) table[filled + v] = table[v] | 1 << (bits - 1 - b);
    filled *= 2;
  }
  for (int axis = 0; axis < 3; ++axis) {
    // An axis too short or too long to divide keeps one step.
    const float scale = static_cast<float>(steps[axis]) / extent[axis];
    const bool usable = scale > 0 && scale < 1e30f;
    scale_[axis] = usable ? scale : 0;
    last_[axis] = usable ? static_cast<float>(steps[axis] - 1) : 0;
  }
  low_[3] = scale_[3] = last_[3] = 0;
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
