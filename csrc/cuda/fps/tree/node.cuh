// Nodes of the pruning tree: bounding boxes with the farthest point of each, a lane for each child.
//
// Pruning is exact. The distance from a sample to a box is computed with the operations of the
// point distance in the same order, and rounding is monotone, so it never exceeds the computed
// distance to a point inside. A child whose farthest point is no farther than that stays as it is.
#pragma once

#include "cuda/common/device.cuh"
#include "cuda/common/ordered_float.cuh"
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

// From v to the nearest value inside.
__device__ inline float outside(float low, float high, float v) {
  return __fsub_rn(v, fminf(fmaxf(v, low), high));
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

// The one of `tied` lanes whose point has the lowest row. At distance 0 there need not be points.
template <class Rows>
__device__ int lowest_row(unsigned tied, float distance, const PointRow& mine, int lane,
                          Rows rows) {
  const bool competes = (tied >> lane & 1u) != 0 && distance > 0.0f;
  const int row = competes ? rows.row_of(mine) : kNoRow;
  return highest_bit(__ballot_sync(kAllLanes, row == warp_min(row)));
}

// Of the lanes' farthest points, which lie `apart` from one another. One of them is by far the
// common case, except in a lattice: its point is on its way before that is known.
template <class Rows>
__device__ Farthest warp_farthest(float mine, const PointRow* at, int apart, int lane, Rows rows) {
  const float largest = warp_max(mine);
  const unsigned tied = __ballot_sync(kAllLanes, mine == largest);
  Farthest best = {largest, at[highest_bit(tied) * apart]};
  if ((tied & (tied - 1)) != 0) {
    best.at = at[lowest_row(tied, largest, at[lane * apart], lane, rows) * apart];
  }
  return best;
}

// Of the children of a root of which each lane holds several: child `i` of a lane has its point at
// place 32 * i + lane.
template <int kBoxes, class Rows>
__device__ Farthest warp_farthest(const Child (&mine)[kBoxes], const PointRow* at, int lane,
                                  Rows rows) {
  float most = mine[0].farthest;
  for (int i = 1; i < kBoxes; ++i) most = fmaxf(most, mine[i].farthest);
  const float largest = warp_max(most);
  unsigned tied = 0, several = 0;
  int first = 0;
  for (int i = 0; i < kBoxes; ++i) {
    const unsigned here = __ballot_sync(kAllLanes, mine[i].farthest == largest);
    if (here == 0) continue;
    several |= tied | (here & (here - 1));
    tied = here;
    first = i * kFan;
  }
  Farthest best = {largest, at[first + highest_bit(tied)]};
  if (several == 0) return best;
  int row = kNoRow, own = 0;
  for (int i = 0; i < kBoxes; ++i) {
    if (mine[i].farthest != largest || largest == 0.0f) continue;
    const int other = rows.row_of(at[i * kFan + lane]);
    if (other < row) row = other, own = i;
  }
  const int lowest = highest_bit(__ballot_sync(kAllLanes, row == warp_min(row)));
  best.at = at[__shfl_sync(kAllLanes, own, lowest) * kFan + lowest];
  return best;
}

}  // namespace farpoint::cuda::tree
