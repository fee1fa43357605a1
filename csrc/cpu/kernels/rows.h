// Rows of a cloud: which are finite, and in blocks, as the brute-force kernels read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cpu/kernels/levels/backend.h"

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

template <class Real>
const BruteKernels<Real>& brute_kernels() {
  if constexpr (std::is_same_v<Real, double>) {
    return backend().wide;
  } else {
    return backend().narrow;
  }
}

inline int64_t blocks_of(int64_t points) { return (points + kBlock - 1) / kBlock; }

// Coordinates of point i of n, row by row, moved into blocks; padding is zero.
template <class Real, class RowOf>
std::vector<Real> in_blocks(const Real* values, int64_t n, int64_t dims, RowOf row_of) {
  std::vector<Real> blocks(blocks_of(n) * kBlock * dims);
  for (int64_t i = 0; i < n; ++i) {
    const Real* from = values + row_of(i) * dims;
    Real* to = blocks.data() + i / kBlock * kBlock * dims + i % kBlock;
    for (int64_t d = 0; d < dims; ++d) to[d * kBlock] = from[d];
  }
  return blocks;
}

}  // namespace farpoint::cpu
