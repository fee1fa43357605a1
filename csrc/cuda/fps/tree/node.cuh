// Nodes of the pruning tree: bounding boxes with the farthest point of each, a lane for each child.
//
// Pruning is exact. The distance from a sample to a box is computed with the operations of the
// point distance in the same order, and rounding is monotone, so it never exceeds the computed
// distance to a point inside. A child whose farthest point is no farther than that stays as it is.
#pragma once

#include "cuda/common/device.cuh"
#include "cuda/fps/argmax.cuh"
#include "cuda/fps/sample.cuh"

namespace farpoint::cuda::tree {

constexpr int kLeaf = kWarp;
constexpr int kFan = kWarp;

// A word of each array for a lane. Rows ascend in a leaf.
struct Leaf {
  float x[kLeaf], y[kLeaf], z[kLeaf];
  float nearest[kLeaf];  // squared distance to the nearest sample, 0 where there is no point
};

struct Box {
  Point low, high;
};

// The lane's child of a node, in registers.
struct Child {
  Box box;
  float farthest;
};

// The children of a node in memory, a word of each array for a lane.
struct Node {
  Point low[kFan], high[kFan];
  float farthest[kFan];
  PointRow at[kFan];  // the farthest point of each child, the lowest row on a tie
};

__device__ inline Box empty_box() {
  const float inf = infinity();
  return {{inf, inf, inf}, {-inf, -inf, -inf}};
}

__device__ inline Box around(const Box& a, const Box& b) {
  return {{fminf(a.low.x, b.low.x), fminf(a.low.y, b.low.y), fminf(a.low.z, b.low.z)},
          {fmaxf(a.high.x, b.high.x), fmaxf(a.high.y, b.high.y), fmaxf(a.high.z, b.high.z)}};
}

// The smallest box around the boxes of all lanes.
__device__ inline float warp_lowest(float v) {
  return from_ordered(__reduce_min_sync(kAllLanes, ordered(v)));
}
__device__ inline float warp_highest(float v) {
  return from_ordered(__reduce_max_sync(kAllLanes, ordered(v)));
}
__device__ inline Box warp_box(const Box& mine) {
  return {{warp_lowest(mine.low.x), warp_lowest(mine.low.y), warp_lowest(mine.low.z)},
          {warp_highest(mine.high.x), warp_highest(mine.high.y), warp_highest(mine.high.z)}};
}

// The smallest box around the points of the lanes that have one.
__device__ inline Box warp_box(Point p, bool exists) {
  const int x = ordered(p.x), y = ordered(p.y), z = ordered(p.z);
  const int most = ordered(infinity()), least = ordered(-infinity());
  const auto lowest = [&](int v) {
    return from_ordered(__reduce_min_sync(kAllLanes, exists ? v : most));
  };
  const auto highest = [&](int v) {
    return from_ordered(__reduce_max_sync(kAllLanes, exists ? v : least));
  };
  return {{lowest(x), lowest(y), lowest(z)}, {highest(x), highest(y), highest(z)}};
}

// How far v is outside. Distances that are not negative order as their bits do, and a maximum of
// three integers is one instruction from sm_90 on.
__device__ inline float outside(float low, float high, float v) {
  const int below = __float_as_int(__fsub_rn(low, v)), above = __float_as_int(__fsub_rn(v, high));
  return __int_as_float(max(max(below, above), 0));
}

__device__ inline float box_distance(const Box& box, Point s) {
  const float dx = outside(box.low.x, box.high.x, s.x);
  const float dy = outside(box.low.y, box.high.y, s.y);
  const float dz = outside(box.low.z, box.high.z, s.z);
  return __fmaf_rn(dz, dz, __fmaf_rn(dy, dy, __fmul_rn(dx, dx)));
}

// The children that sample `s` may change, a bit each.
__device__ inline unsigned touched_children(const Child& mine, Point s) {
  return __ballot_sync(kAllLanes, box_distance(mine.box, s) < mine.farthest);
}

__device__ inline Child load_child(const Node& node, int lane) {
  return {{node.low[lane], node.high[lane]}, node.farthest[lane]};
}

__device__ inline void store_child(Node& node, const Child& mine) {
  const int lane = lane_id();
  node.low[lane] = mine.box.low;
  node.high[lane] = mine.box.high;
  node.farthest[lane] = mine.farthest;
}

// The highest of several children a lane, of which child i is at place i * 32 + lane.
template <int kBoxes>
__device__ int highest_place(const unsigned (&lanes)[kBoxes]) {
  int place = highest_bit(lanes[0]);
#pragma unroll
  for (int i = 1; i < kBoxes; ++i) {
    if (lanes[i] != 0) place = i * kFan + highest_bit(lanes[i]);
  }
  return place;
}

// The `tied` child whose point has the lowest row. At distance 0 there need not be points.
template <int kBoxes, class Rows>
__device__ int lowest_row(const unsigned (&tied)[kBoxes], float distance, const PointRow* at,
                          int apart, int lane, Rows rows) {
  int row[kBoxes], lowest = kNoRow;
  unsigned found[kBoxes];
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    const bool competes = (tied[i] >> lane & 1u) != 0 && distance > 0.0f;
    row[i] = competes ? rows.row_of(at[(i * kFan + lane) * apart]) : kNoRow;
    lowest = min(lowest, row[i]);
  }
  lowest = warp_min(lowest);
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) found[i] = __ballot_sync(kAllLanes, row[i] == lowest);
  return highest_place(found);
}

// Of the lanes' farthest points, which lie `apart` from one another. One of them is by far the
// common case, except in a lattice: its point is on its way before that is known.
template <int kBoxes, class Rows>
__device__ Farthest warp_farthest(const float (&mine)[kBoxes], const PointRow* at, int apart,
                                  int lane, Rows rows) {
  float most = mine[0];
#pragma unroll
  for (int i = 1; i < kBoxes; ++i) most = fmaxf(most, mine[i]);
  const float largest = warp_max(most);
  unsigned tied[kBoxes], before = 0;
  bool several = false;
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    tied[i] = __ballot_sync(kAllLanes, mine[i] == largest);
    several |= (tied[i] & (tied[i] - 1)) != 0 || (before != 0 && tied[i] != 0);
    before |= tied[i];
  }
  Farthest best = {largest, at[highest_place(tied) * apart]};
  if (several) best.at = at[lowest_row(tied, largest, at, apart, lane, rows) * apart];
  return best;
}

}  // namespace farpoint::cuda::tree
