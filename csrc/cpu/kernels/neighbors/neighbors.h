// k nearest neighbors and ball query in one cloud, exact, the lowest row on a tie.
//
// Rows that are not finite are farther than any other, at an infinite distance, and in no ball. A
// query that is not finite is infinitely far from every row.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/kernels/levels/backend.h"

#pragma GCC visibility push(default)
namespace farpoint::cpu {

// A cloud made ready for searches, which any number of threads may run at once.
class Neighbors {
 public:
  enum class Use { kNearest, kBalls };

  // n rows of 3 that about `queries` searches of one kind will use; the rows are not read again.
  Neighbors(const float* xyz, int64_t n, int64_t queries, Use use, int threads);

  // For each of `count` queries the k nearest rows, nearest first, and their squared distances. In
  // places beyond n the nearest row stands again, row 0 where n is 0, at an infinite distance.
  void nearest(const float* queries, int64_t count, int64_t k, int32_t* rows, float* squared) const;

  // For each of `count` centers the lowest k rows whose squared distance is less than `limit`, and
  // either at least `inner` or zero. The first stands again in the places left, row 0 where there
  // is none; `found` counts the others.
  void within(const float* centers, int64_t count, float inner, float limit, int64_t k,
              int32_t* rows, int32_t* found) const;

 private:
  using Index = std::unique_ptr<void, void (*)(void*)>;

  // As `nearest` with k = 1; false, the outputs undefined, where that is faster query by query.
  bool nearest_to_many(const float* queries, int64_t count, int32_t* rows, float* squared) const;

  const SearchKernels& kernels_;
  Index index_;  // of the finite rows
  int64_t points_, finite_ = 0;
  // The finite rows in order, then the others; empty where every row is finite.
  std::vector<int32_t> rows_;
};

}  // namespace farpoint::cpu
#pragma GCC visibility pop
