// Ball query and nearest point in float64 by brute force. See backend.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/kernels/brute_force/blocks.h"

namespace farpoint::cpu {

// A cloud made ready for searches, which any number of threads may run at once.
class WideCloud {
 public:
  // n rows of 3, which are not read again.
  WideCloud(const double* xyz, int64_t n)
      : n_(n), blocks_(in_blocks(xyz, n, 3, [](int64_t i) { return i; })) {}

  // As Neighbors::nearest with k = 1, but -1 where no row is at a finite distance.
  void nearest(const double* queries, int64_t count, int32_t* rows, double* squared) const {
    const WideSearches& searches = brute_backend().searches;
    for (int64_t q = 0; q < count; ++q) {
      rows[q] = searches.nearest(blocks_.data(), n_, queries + 3 * q, squared + q);
    }
  }

  // As Neighbors::within.
  void within(const double* centers, int64_t count, double inner, double limit, int64_t k,
              int32_t* rows, int32_t* found) const {
    const WideSearches& searches = brute_backend().searches;
    for (int64_t q = 0; q < count; ++q, rows += k) {
      const int64_t hits =
          searches.within(blocks_.data(), n_, centers + 3 * q, inner, limit, k, rows);
      std::fill(rows + hits, rows + k, hits > 0 ? rows[0] : 0);
      found[q] = static_cast<int32_t>(hits);
    }
  }

 private:
  int64_t n_;
  std::vector<double> blocks_;
};

}  // namespace farpoint::cpu
