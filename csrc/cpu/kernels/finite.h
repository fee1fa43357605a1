// Finite rows of a cloud.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace farpoint::cpu {

template <class Real>
bool is_finite(const Real* row, int64_t columns = 3) {
  bool finite = true;
  for (int64_t d = 0; d < columns; ++d) finite &= std::isfinite(row[d]);
  return finite;
}

template <class Real>
std::vector<int32_t> finite_rows(const Real* values, int64_t n, int64_t columns = 3) {
  std::vector<int32_t> rows;
  rows.reserve(n);
  for (int64_t row = 0; row < n; ++row) {
    if (is_finite(values + row * columns, columns)) rows.push_back(static_cast<int32_t>(row));
  }
  return rows;
}

// Some rows of 3 as a cloud of their own.
inline std::vector<float> gathered(const float* xyz, const std::vector<int32_t>& rows) {
  std::vector<float> result;
  result.reserve(3 * rows.size());
  for (const int64_t row : rows) result.insert(result.end(), xyz + 3 * row, xyz + 3 * row + 3);
  return result;
}

}  // namespace farpoint::cpu
