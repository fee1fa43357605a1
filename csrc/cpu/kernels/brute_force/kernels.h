// Brute-force kernels with the instruction set FARPOINT_SIMD, the name of a namespace, on vectors
// of FARPOINT_VECTOR_BYTES of floats or doubles: GCC's vector types, and what those lack.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/kernels/levels/backend.h"

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

// One block in registers.
template <class Real>
struct Block {
  static constexpr int kLanes = VectorOf<Real>::kLanes;
  static constexpr int kParts = kBlock / kLanes;
  Vector<Real> part[kParts];

  static Block load(const Real* from) {
    Block b;
    for (int i = 0; i < kParts; ++i) b.part[i] = load_vector(from + i * kLanes);
    return b;
  }
  void store(Real* to) const {
    for (int i = 0; i < kParts; ++i) store_vector<Real>(to + i * kLanes, part[i]);
  }
  bool any_less_than(const Block& other) const {
    bool any = false;
    for (int i = 0; i < kParts; ++i) any |= any_less(part[i], other.part[i]);
    return any;
  }
  // A comparison with NaN is false, which leaves `this`.
  void take_lower(const Block& other) {
    for (int i = 0; i < kParts; ++i) {
      part[i] = other.part[i] < part[i] ? other.part[i] : part[i];
    }
  }
};

// Adds the squares of `count` dimensions.
template <class Real>
inline void add_squares(Block<Real>& sum, const Real* coordinates, const Real* sample,
                        int64_t count) {
  for (int64_t d = 0; d < count; ++d) {
    for (int i = 0; i < Block<Real>::kParts; ++i) {
      const Vector<Real> p = load_vector(coordinates + d * kBlock + i * Block<Real>::kLanes);
      const Vector<Real> apart = p - sample[d];
      sum.part[i] = multiply_add(apart, apart, sum.part[i]);
    }
  }
}

// The first of the largest values of a stream of blocks, lane by lane.
template <class Real>
class Largest {
 public:
  explicit Largest(int64_t begin) {
    for (int i = 0; i < Block<Real>::kParts; ++i) {
      best_[i] = Vector<Real>{};
      where_[i] = Mask<Real>{} - 1;
    }
    block_ = Mask<Real>{} + static_cast<decltype(Mask<Real>{}[0] + 0)>(begin);
  }

  void offer(const Block<Real>& values) {
    for (int i = 0; i < Block<Real>::kParts; ++i) {
      const Mask<Real> better = values.part[i] > best_[i];
      best_[i] = better ? values.part[i] : best_[i];
      where_[i] = better ? block_ : where_[i];
    }
    block_ += 1;
  }

  FarthestPoint<Real> result() const {
    FarthestPoint<Real> found = {0, -1};
    for (int i = 0; i < Block<Real>::kParts; ++i) {
      for (int lane = 0; lane < Block<Real>::kLanes; ++lane) {
        const Real value = best_[i][lane];
        const int64_t index = where_[i][lane] * kBlock + i * Block<Real>::kLanes + lane;
        if (value > found.distance || (value == found.distance && index < found.index)) {
          found = {value, index};
        }
      }
    }
    return found;
  }

 private:
  Vector<Real> best_[Block<Real>::kParts];
  Mask<Real> where_[Block<Real>::kParts], block_;
};

// A sum of squares never falls, in floating point either, so that a block is done with as soon as
// none of its points can become nearer.
constexpr int64_t kDimsAtOnce = 8;

template <class Real>
FarthestPoint<Real> apply(const BlockPoints<Real>& points, const Real* sample, int64_t begin,
                          int64_t end) {
  Largest<Real> largest(begin);
  for (int64_t b = begin; b < end; ++b) {
    auto nearest = Block<Real>::load(points.nearest + b * kBlock);
    const Real* from = points.coordinates + b * points.dims * kBlock;
    Block<Real> sum = {};
    for (int64_t d = 0;; d += kDimsAtOnce) {
      const int64_t left = points.dims - d;
      add_squares(sum, from + d * kBlock, sample + d, left < kDimsAtOnce ? left : kDimsAtOnce);
      if (!sum.any_less_than(nearest)) break;
      if (left <= kDimsAtOnce) {
        nearest.take_lower(sum);
        nearest.store(points.nearest + b * kBlock);
        break;
      }
    }
    largest.offer(nearest);
  }
  return largest.result();
}

constexpr int64_t kWideDims = 3;

inline Block<double> wide_distances(const double* blocks, int64_t block, const double* query) {
  Block<double> sum = {};
  add_squares(sum, blocks + block * kWideDims * kBlock, query, kWideDims);
  return sum;
}

inline int32_t nearest_wide(const double* blocks, int64_t n, const double* query, double* squared) {
  double best = __builtin_inf();
  int64_t row = -1;
  Block<double> reach;
  for (auto& part : reach.part) part = Vector<double>{} + best;
  for (int64_t b = 0; b * kBlock < n; ++b) {
    const auto here = wide_distances(blocks, b, query);
    if (!here.any_less_than(reach)) continue;
    double values[kBlock];
    here.store(values);
    for (int64_t p = 0; p < kBlock && b * kBlock + p < n; ++p) {
      if (values[p] < best) best = values[p], row = b * kBlock + p;
    }
    for (auto& part : reach.part) part = Vector<double>{} + best;
  }
  *squared = best;
  return static_cast<int32_t>(row);
}

inline int64_t within_wide(const double* blocks, int64_t n, const double* query, double inner,
                           double limit, int64_t k, int32_t* rows) {
  Block<double> reach;
  for (auto& part : reach.part) part = Vector<double>{} + limit;
  int64_t found = 0;
  for (int64_t b = 0; b * kBlock < n && found < k; ++b) {
    const auto here = wide_distances(blocks, b, query);
    if (!here.any_less_than(reach)) continue;
    double values[kBlock];
    here.store(values);
    for (int64_t p = 0; p < kBlock && b * kBlock + p < n && found < k; ++p) {
      const bool inside = values[p] < limit && (values[p] >= inner || values[p] == 0);
      if (inside) rows[found++] = static_cast<int32_t>(b * kBlock + p);
    }
  }
  return found;
}

constexpr BruteKernels<float> kNarrow = {apply<float>};
constexpr BruteKernels<double> kWide = {apply<double>};
constexpr WideSearches kWideSearches = {nearest_wide, within_wide};

}  // namespace farpoint::cpu::brute_force::FARPOINT_SIMD
