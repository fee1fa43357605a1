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

__device__ inline float outside(float low, float high, float v) {
  return fmaxf(fmaxf(__fsub_rn(low, v), __fsub_rn(v, high)), 0.0f);
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

__device__ inline Child load_child(const Node& node) {
  const int lane = lane_id();
  return {{node.low[lane], node.high[lane]}, node.farthest[lane]};
}

__device__ inline void store_child(Node& node, const Child& mine) {
  const int lane = lane_id();
  node.low[lane] = mine.box.low;
  node.high[lane] = mine.box.high;
  node.farthest[lane] = mine.farthest;
}

// The one of `tied` lanes whose point has the lowest row.
__device__ inline int lowest_row(unsigned tied, const PointRow* at) {
  const int row = tied >> lane_id() & 1u ? row_of(at[lane_id()]) : kNoRow;
  return highest_bit(__ballot_sync(kAllLanes, row == warp_min(row)));
}

// Of the children of a node whose farthest points lie `at`. One of them is by far the common case,
// except in a lattice: its point is on its way before that is known.
__device__ inline Farthest warp_farthest(float mine, const PointRow* at) {
  const float largest = warp_max(mine);
  const unsigned tied = __ballot_sync(kAllLanes, mine == largest);
  Farthest best = {largest, at[highest_bit(tied)]};
  if ((tied & (tied - 1)) != 0) best.at = at[lowest_row(tied, at)];
  return best;
}

}  // namespace farpoint::cuda::tree
