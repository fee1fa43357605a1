// Finiteness of points.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace farpoint::cpu {

// Of a row of 3.
template <class Real>
bool is_finite(const Real* row) {
  return std::isfinite(row[0]) && std::isfinite(row[1]) && std::isfinite(row[2]);
}

// The finite rows of a cloud as a cloud of their own.
struct FiniteRows {
  std::vector<int32_t> rows;
  std::vector<float> xyz;

  FiniteRows(const float* cloud, int64_t n) {
    for (int64_t row = 0; row < n; ++row) {
      const float* p = cloud + 3 * row;
      if (!is_finite(p)) continue;
      rows.push_back(static_cast<int32_t>(row));
      xyz.insert(xyz.end(), p, p + 3);
    }
  }
  int64_t count() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace farpoint::cpu
