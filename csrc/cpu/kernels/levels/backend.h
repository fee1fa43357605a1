// Interface of the kernels that are compiled once for each instruction set.
#pragma once

// All headers of the library that the kernels use, and what belongs to no level: a file that
// compiles them includes this one before it names its target, since what they declare belongs to
// every level.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cpu/kernels/stop.h"

#pragma GCC visibility push(default)
namespace farpoint::cpu {

// Farthest point sampling of one finite cloud in three dimensions.
struct FpsJob {
  const float* xyz;  // n rows of 3
  int64_t n;
  int64_t m;  // 1 <= m <= n
  int64_t start;
  int32_t* indices;                   // m
  float* distances;                   // m, or nullptr
  int threads;                        // for this one cloud
  const std::atomic<int>* cancelled;  // or nullptr
  int64_t deadline;                   // of FpsTask
  float stop_squared = 0;  // sampling ends where no point is farther than this, a squared distance
};

constexpr int64_t kCancelled = -1;
constexpr int64_t kNotFinite = -2;

// Neighbor searches. An index holds finite points only, and a query is finite. Rows count from 0 in
// the order given.
struct SearchKernels {
  // An index of n >= 1 rows of 3 that about `queries` searches will use, for `within` if `balls`.
  void* (*build)(const float* xyz, int64_t n, int64_t queries, bool balls, int threads);
  void (*destroy)(void* index);

  // The k <= n nearest rows, nearest first, the lowest row on a tie. At least k rows are known to
  // lie nearer than `limit`, a squared distance; `work` has room for k keys.
  void (*nearest)(const void* index, const float* query, int64_t k, float limit, uint64_t* work,
                  int32_t* rows, float* squared);
  // The nearest row to each of `count` queries. False, the outputs undefined, where `nearest` is
  // faster or a query is not finite.
  bool (*nearest_to_many)(const void* index, const float* queries, int64_t count, int32_t* rows,
                          float* squared);
  // The lowest k rows whose squared distance is at most `reach` and either at least `inner` or
  // zero, lowest first; returns how many.
  int64_t (*within)(const void* index, const float* query, float inner, float reach, int64_t k,
                    int32_t* rows);
};

// The brute-force kernels store points in blocks of this many: coordinate d of point p of a block
// at d * kBlock + p.
constexpr int64_t kBlock = 16;

template <class Real>
struct BlockPoints {
  const Real* coordinates;  // blocks of dims * kBlock
  int64_t dims;
  Real* nearest;  // squared distance of each point to its nearest sample; negative for padding
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

// One instruction set. `sample` fills the first samples and returns their number, fewer than m when
// every point left is within `stop_squared`, by default on a chosen one; or kCancelled; or
// kNotFinite, with nothing done, for a cloud with a value that is not finite.
struct Backend {
  int64_t (*sample)(const FpsJob& job);
  SearchKernels search;
  BruteKernels<float> narrow;
  BruteKernels<double> wide;
  WideSearches wide_searches;
};

enum class SimdLevel { kPlain, kAvx2, kAvx512 };

// The best level of this processor, or what the environment variable FARPOINT_CPU_SIMD ("plain",
// "avx2", "avx512") or limit_simd asks for where that is lower.
SimdLevel simd_level();
const char* name_of(SimdLevel level);

// Every level gives the same bits, so limiting one is for tests and benchmarks. An empty name
// lifts the limit; an unknown one throws std::invalid_argument.
void limit_simd(const std::string& name);

// That of simd_level().
const Backend& backend();

}  // namespace farpoint::cpu
#pragma GCC visibility pop
