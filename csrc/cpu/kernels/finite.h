// Finiteness test of a point.
#pragma once

#include <cmath>

namespace farpoint::cpu {

// Of a row of 3.
template <class Real>
bool is_finite(const Real* row) {
  return std::isfinite(row[0]) && std::isfinite(row[1]) && std::isfinite(row[2]);
}

}  // namespace farpoint::cpu
