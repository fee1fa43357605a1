// k nearest neighbors in float64 by brute force: gradients are checked in it, clouds are not kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "cpu/kernels/finite.h"

namespace farpoint::cpu {

inline double squared_distance(const double* p, const double* q) {
  const double dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2];
  return std::fma(dz, dz, std::fma(dy, dy, dx * dx));
}

// As Neighbors::nearest, for a cloud of n rows.
inline void nearest(const double* xyz, int64_t n, const double* queries, int64_t count, int64_t k,
                    int32_t* rows, double* squared) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Ordered as the fields are: finite rows first, then by distance, then by row.
  std::vector<std::tuple<bool, double, int32_t>> all(n);
  for (int64_t q = 0; q < count; ++q, queries += 3, rows += k, squared += k) {
    for (int64_t i = 0; i < n; ++i) {
      const double* p = xyz + 3 * i;
      const bool finite = is_finite(p);
      all[i] = {!finite, finite && is_finite(queries) ? squared_distance(p, queries) : kInfinity,
                static_cast<int32_t>(i)};
    }
    const int64_t present = std::min(k, n);
    std::partial_sort(all.begin(), all.begin() + present, all.end());
    for (int64_t i = 0; i < present; ++i) std::tie(std::ignore, squared[i], rows[i]) = all[i];
    std::fill(rows + present, rows + k, present > 0 ? rows[0] : 0);
    std::fill(squared + present, squared + k, kInfinity);
  }
}

}  // namespace farpoint::cpu
