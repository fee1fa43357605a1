// k nearest neighbors and ball query in one cloud, exact, the lowest row on a tie.
//
// Rows that are not finite are farther than any other, at an infinite distance, and in no ball. A
// query that is not finite is infinitely far from every row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "cpu/kernels/levels/backend.h"
#include "cpu/kernels/rows.h"

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

namespace farpoint::cpu {

// The same in float64 by brute force: gradients are checked in it.
class WideCloud {
 public:
  // n rows of 3, which are read again.
  WideCloud(const double* xyz, int64_t n, int64_t /*queries*/, Neighbors::Use, int /*threads*/)
      : xyz_(xyz), n_(n), blocks_(in_blocks(xyz, n, 3, [](int64_t i) { return i; })) {}

  // As Neighbors::nearest.
  void nearest(const double* queries, int64_t count, int64_t k, int32_t* rows,
               double* squared) const {
    const auto one = backend().wide_searches.nearest;
    for (int64_t q = 0; q < count; ++q, queries += 3, rows += k, squared += k) {
      const bool found = k == 1 && (*rows = one(blocks_.data(), n_, queries, squared)) >= 0;
      if (!found) nearest_in_order(queries, k, rows, squared);
    }
  }

  // As Neighbors::within.
  void within(const double* centers, int64_t count, double inner, double limit, int64_t k,
              int32_t* rows, int32_t* found) const {
    const auto search = backend().wide_searches.within;
    for (int64_t q = 0; q < count; ++q, rows += k) {
      const int64_t hits = search(blocks_.data(), n_, centers + 3 * q, inner, limit, k, rows);
      std::fill(rows + hits, rows + k, hits > 0 ? rows[0] : 0);
      found[q] = static_cast<int32_t>(hits);
    }
  }

 private:
  static double squared_distance(const double* p, const double* q) {
    const double dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2];
    return std::fma(dz, dz, std::fma(dy, dy, dx * dx));
  }

  void nearest_in_order(const double* query, int64_t k, int32_t* rows, double* squared) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    // Ordered as the fields are: finite rows first, then by distance, then by row.
    std::vector<std::tuple<bool, double, int32_t>> all(n_);
    for (int64_t i = 0; i < n_; ++i) {
      const double* p = xyz_ + 3 * i;
      const bool finite = is_finite(p);
      all[i] = {!finite, finite && is_finite(query) ? squared_distance(p, query) : kInfinity,
                static_cast<int32_t>(i)};
    }
    const int64_t present = std::min(k, n_);
    std::partial_sort(all.begin(), all.begin() + present, all.end());
    for (int64_t i = 0; i < present; ++i) std::tie(std::ignore, squared[i], rows[i]) = all[i];
    std::fill(rows + present, rows + k, present > 0 ? rows[0] : 0);
    std::fill(squared + present, squared + k, kInfinity);
  }

  const double* xyz_;
  int64_t n_;
  std::vector<double> blocks_;
};

}  // namespace farpoint::cpu
