// Backend interface of the brute-force kernels, one backend per instruction set.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cpu {

// Points are stored in blocks of this many: coordinate d of point p of a block at d * kBlock + p.
constexpr int64_t kBlock = 16;

template <class Real>
struct BlockPoints {
  const Real* coordinates;  // blocks of dims * kBlock
  int64_t dims;
  Real* nearest;  // squared distance of each point to its nearest sample; negative for padding
};

// A matrix of distances, of which a sample reads one row.
template <class Real>
struct MatrixPoints {
  int64_t n;
  Real* nearest;  // as above
};

// The largest of `nearest` and the lowest index that has it; 0 and -1 where none is positive.
template <class Real>
struct FarthestPoint {
  Real distance;
  int64_t index;
};

// Brute force over blocks begin..end. Squared distances are fma(d_i, d_i, ...) over the dimensions
// in ascending order.
template <class Real>
struct BruteKernels {
  // Moves `nearest` for one more sample (dims), and finds the farthest point.
  FarthestPoint<Real> (*apply)(const BlockPoints<Real>& points, const Real* sample, int64_t begin,
                               int64_t end);
  // Likewise with the row (n) of a matrix; what is NaN moves nothing.
  FarthestPoint<Real> (*apply_row)(const MatrixPoints<Real>& points, const Real* row, int64_t begin,
                                   int64_t end);
};

// Searches among points in three dimensions in float64. Distances that are infinite or NaN are
// found by none of them.
struct WideSearches {
  // The row nearest to `query`, the lowest on a tie, and its squared distance; -1 and infinity.
  int32_t (*nearest)(const double* blocks, int64_t n, const double* query, double* squared);
  // The lowest k rows nearer than `limit`, and at least `inner` or at zero; returns how many.
  int64_t (*within)(const double* blocks, int64_t n, const double* query, double inner,
                    double limit, int64_t k, int32_t* rows);
};

struct BruteBackend {
  BruteKernels<float> narrow;
  BruteKernels<double> wide;
  WideSearches searches;
};

extern const BruteBackend brute_plain;
#if defined(__x86_64__)
extern const BruteBackend brute_avx2;
extern const BruteBackend brute_avx512;
#endif

}  // namespace farpoint::cpu
#pragma GCC visibility pop
