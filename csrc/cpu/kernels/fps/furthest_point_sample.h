// Exact farthest point sampling on the CPU, to the contract of the library: squared distances are
// fma(dz, dz, fma(dy, dy, dx * dx)), and so on over more dimensions in ascending order; the lowest
// index wins a tie, no row is sampled twice, and rows that are not finite come last and move
// nothing.
#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cpu {

struct FpsTask {
  const void* values;  // n rows of `columns` numbers: float64 where `wide`, else float32
  int64_t n;
  int64_t columns;  // the dimensions
  bool wide;
  int64_t m;         // 1 <= m <= n
  int64_t start;     // a row; where it is not finite, the first finite row stands in
  int32_t* indices;  // m rows of this cloud
  void* distances;   // m of the values' type, or nullptr: the covering radius after each sample
  // Ends at a covering radius of at most this and leaves the other outputs alone; negative:
  // nowhere.
  double radius = -1;
  const std::atomic<int>* cancelled = nullptr;  // nonzero: given up, so its outputs stay unfinished
  int64_t deadline = 0;  // given up soon after this moment of monotonic_ns(); 0: never
};

// Runs the tasks on up to `threads` threads. Each looks at its `cancelled` before every sample, so
// that one that is given up ends at once and the others go on. Returns whether all are finished.
bool furthest_point_sample(const FpsTask* tasks, int64_t count, int threads);

}  // namespace farpoint::cpu
#pragma GCC visibility pop
