// A grid of 2^bits cells over a box, numbered along a Morton curve that halves the longest side
// first, so that cells stay near cubic whatever the shape of the box.
#pragma once

#include "cpu/kernels/spatial/geometry.h"

namespace farpoint::cpu::FARPOINT_SIMD {

constexpr int kMaxBits = 12;

class Grid {
 public:
  void fit(const Bounds& bounds, int bits);
  int cells() const { return 1 << bits_; }

  int cell_of(Float4 p) const {
    const Int4 step = __builtin_convertvector(min4((p - low_) * scale_, last_), Int4);
    return table_[0][step[0]] | table_[1][step[1]] | table_[2][step[2]];
  }

 private:
  int bits_ = 0;
  Float4 low_, scale_, last_;
  uint16_t table_[3][1 << kMaxBits];  // each axis' share of the cell number
};

inline void Grid::fit(const Bounds& bounds, int bits) {
  bits_ = bits;
  low_ = bounds.low;
  const Float4 extent = bounds.high - bounds.low;
  Float4 side = extent;
  int axis_of[kMaxBits];  // from the most significant bit down
  for (int b = 0; b < bits; ++b) {
    int axis = side[1] > side[0] ? 1 : 0;
    if (side[2] > side[axis]) axis = 2;
    axis_of[b] = axis;
    side[axis] *= 0.5f;
  }
  int steps[3] = {1, 1, 1};
  for (int axis = 0; axis < 3; ++axis) table_[axis][0] = 0;
  for (int b = bits - 1; b >= 0; --b) {
    uint16_t* table = table_[axis_of[b]];
    int& filled = steps[axis_of[b]];
    for (int v = 0; v < filled; ++v) table[filled + v] = table[v] | 1 << (bits - 1 - b);
    filled *= 2;
  }
  for (int axis = 0; axis < 3; ++axis) {
    // An axis too short or too long to divide keeps one step.
    const float scale = static_cast<float>(steps[axis]) / extent[axis];
    const bool usable = scale > 0 && scale < 1e30f;
    scale_[axis] = usable ? scale : 0;
    last_[axis] = usable ? static_cast<float>(steps[axis] - 1) : 0;
  }
  low_[3] = scale_[3] = last_[3] = 0;
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
