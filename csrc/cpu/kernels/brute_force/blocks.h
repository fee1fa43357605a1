// Points as the brute-force kernels read them, and the kernels of this processor.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "cpu/kernels/levels/backend.h"

namespace farpoint::cpu {

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
