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

// x, y and z of four points that lie `stride` numbers apart.
struct FourPoints {
  Float4 axis[3];
};
inline FourPoints four_points(const float* p, int stride) {
  const Float4 a = load4(p), b = load4(p + stride);
  const Float4 c = load4(p + 2 * stride), d = load4(p + 3 * stride);
  const Float4 xy_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Float4 xy_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Float4 z_ab = __builtin_shufflevector(a, b, 2, 6, 2, 6);
  const Float4 z_cd = __builtin_shufflevector(c, d, 2, 6, 2, 6);
  return {__builtin_shufflevector(xy_ab, xy_cd, 0, 1, 4, 5),
          __builtin_shufflevector(xy_ab, xy_cd, 2, 3, 6, 7),
          __builtin_shufflevector(z_ab, z_cd, 0, 1, 4, 5)};
}

constexpr int kMaxBits = 12;

// 2^bits cells over a box, numbered along a Morton curve that halves the longest side first, so
// that cells stay near cubic whatever the shape of the box.
class Grid {
 public:
  void fit(const Bounds& bounds, int bits);
  int cells() const { return 1 << bits_; }

  // The cell of each of n points of the box, kStride numbers apart.
  template <int kStride>
  void find_cells(const float* points, int64_t n, uint16_t* cells) const {
    // A load of a point takes in the number behind it, which the last point has not.
    while (n > kAtOnce) {
      find_some<kStride>(points, cells);
      points += kStride * kAtOnce, cells += kAtOnce, n -= kAtOnce;
    }
    float last[kStride * kAtOnce + 1];
    uint16_t found[kAtOnce];
    for (int64_t i = 0; i < kAtOnce; ++i) {
      std::memcpy(last + kStride * i, points + kStride * (i < n ? i : 0), 3 * sizeof(float));
    }
    find_some<kStride>(last, found);
    std::memcpy(cells, found, n * sizeof(uint16_t));
  }

 private:
  static constexpr int kAtOnce = 16;
  typedef uint16_t Cells __attribute__((vector_size(kAtOnce * sizeof(uint16_t))));

  template <int kStride>
  void find_some(const float* points, uint16_t* cells) const {
    Int4 pairs[3][2];  // steps along each axis, in the lower half of a lane those of an even point
    for (int half = 0; half < 2; ++half) {
      const float* const p = points + 8 * kStride * half;
      const FourPoints even = four_points(p, 2 * kStride);
      const FourPoints odd = four_points(p + kStride, 2 * kStride);
      for (int axis = 0; axis < 3; ++axis) {
        const auto step = [&](Float4 v) {
          return __builtin_convertvector((v - low_[axis]) * scale_[axis], Int4);
        };
        pairs[axis][half] = step(even.axis[axis]) | step(odd.axis[axis]) << 16;
      }
    }
    Cells steps[3], found = {};  // not joined in memory, where a load would wait for both halves
    for (int axis = 0; axis < 3; ++axis) {
      steps[axis] = reinterpret_cast<Cells>(
          __builtin_shufflevector(pairs[axis][0], pairs[axis][1], 0, 1, 2, 3, 4, 5, 6, 7));
    }
    for (int b = 0; b < bits_; ++b) found = found << 1 | (steps[axis_[b]] >> shift_[b] & 1);
    std::memcpy(cells, &found, sizeof(found));
  }

  int bits_ = 0;
  float low_[3], scale_[3];
  int axis_[kMaxBits], shift_[kMaxBits];  // of each bit of a number, the highest first
};

inline void Grid::fit(const Bounds& bounds, int bits) {
  bits_ = bits;
  const Float4 extent = bounds.high - bounds.low;
  Float4 side = extent;
  int halvings[3] = {};
  for (int b = 0; b < bits; ++b) {
    int axis = side[1] > side[0] ? 1 : 0;
    if (side[2] > side[axis]) axis = 2;
    axis_[b] = axis;
    side[axis] *= 0.5f;
    ++halvings[axis];
  }
  for (int axis = 0; axis < 3; ++axis) {
    // A little too small, so that rounding never gives the step behind the last. An axis too short
    // or too long to divide keeps one step.
    const float scale = 0.99999f * static_cast<float>(1 << halvings[axis]) / extent[axis];
    const bool usable = scale > 0 && scale < 1e30f;
    scale_[axis] = usable ? scale : 0;
    low_[axis] = usable ? bounds.low[axis] : 0;
  }
  for (int b = 0; b < bits; ++b) shift_[b] = --halvings[axis_[b]];
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
