// A leaf of the pruning tree from its rows, by a warp.
#pragma once

#include "cuda/fps/tree/layout.cuh"

namespace farpoint::cuda::tree {

// Leaf `leaf` of the batch, which has the row of each lane; kNoRow where there is none.
__device__ inline void put_leaf(const Storage& storage, int64_t leaf, const Cloud& cloud, int row) {
  row = warp_sorted(row);
  const Point p = row != kNoRow ? cloud.point(row) : Point{0.0f, 0.0f, 0.0f};
  const bool counts = row != kNoRow && all_finite(p);
  Leaf& points = storage.leaves[leaf];
  points.x[lane_id()] = p.x, points.y[lane_id()] = p.y, points.z[lane_id()] = p.z;
  points.nearest[lane_id()] = counts ? infinity() : 0.0f;
  storage.rows[leaf * kLeaf + lane_id()] = row;
  const Box box = warp_box(p, counts);
  if (lane_id() == 0) storage.boxes[leaf] = box;
}

}  // namespace farpoint::cuda::tree
