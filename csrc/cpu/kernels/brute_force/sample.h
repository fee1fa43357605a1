// Exact farthest point sampling by brute force: any number of dimensions, float32 or float64, or a
// matrix of distances. To the contract of fps/furthest_point_sample.h, with squared distances
// fma(d_i, d_i, ...) over the dimensions in ascending order.
#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cpu {

template <class Real>
struct BruteTask {
  const Real* values;  // n rows of `columns`
  int64_t n;
  int64_t columns;  // the dimensions; of a matrix, at least n
  bool matrix;      // values[i * columns + j] is the distance from sample i to point j
  int64_t m;        // 1 <= m <= n
  int64_t start;    // a row; where it is not finite, the first finite row stands in
  int32_t* indices;
  Real* distances;  // m, or nullptr: the covering radius after each sample
  const std::atomic<int>* cancelled = nullptr;
  Real radius = -1;  // as for FpsTask
};

// As for FpsTask.
int64_t estimate_nanoseconds(const BruteTask<float>* tasks, int64_t count);
int64_t estimate_nanoseconds(const BruteTask<double>* tasks, int64_t count);
void furthest_point_sample(const BruteTask<float>* tasks, int64_t count, int threads);
void furthest_point_sample(const BruteTask<double>* tasks, int64_t count, int threads);

}  // namespace farpoint::cpu
#pragma GCC visibility pop
