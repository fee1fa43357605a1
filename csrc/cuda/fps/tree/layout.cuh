// Where the pruning tree of a cloud lies in memory, and which leaves each warp of its block owns.
#pragma once

#include "cuda/common/launch.cuh"
#include "cuda/fps/cloud.cuh"
#include "cuda/fps/tree/node.cuh"

namespace farpoint::cuda::tree {

constexpr int kMaxWarps = 16;
constexpr int kMaxLevels = 4;
constexpr int kGroup = 4;  // warps that share a neighborhood

// Of all clouds of a batch, in global memory.
struct Storage {
  Leaf* leaves;
  int* rows;                    // (leaves, 32), padded with kNoRow
  Box* boxes;                   // (leaves): of the finite points
  Node* nodes[kMaxLevels - 1];  // of leaves, and of such nodes; null where in shared memory
};

// A cloud's first leaf is known without a sum over the clouds before it.
__host__ __device__ inline int64_t first_leaf(int64_t first_row, int64_t cloud) {
  return first_row / kLeaf + cloud;
}
// Likewise its first node: leaves / 32, rounded up, and up to 4 more as warps share leaves.
__host__ __device__ inline int64_t first_node(int64_t first_row, int64_t cloud) {
  return first_leaf(first_row, cloud) / kFan + (kGroup + 1) * cloud;
}
// Nodes of leaves of one cloud; the warps of a group fill theirs side by side.
__host__ __device__ inline int64_t nodes_of(int64_t points, int warps) {
  const int apart = warps < kGroup ? warps : kGroup;
  return apart * ceil_div(ceil_div(points, kLeaf), kFan * apart);
}

// Most points of a tree.
inline int64_t capacity(int warps, int levels) {
  int64_t points = int64_t{kLeaf} * warps;
  for (int l = 0; l < levels; ++l) points *= kFan;
  return points;
}

// The largest power of two that is at most v, and at least 1.
inline int power_of_two(int64_t v) {
  int power = 1;
  while (2 * power <= v) power *= 2;
  return power;
}

// Points of a cloud have a place in its leaves and a row. What is found of a point is its name.
struct NamedByPlace {
  const int* rows;
  __device__ int name_of(int place) const { return place; }
  __device__ int row_of(PointRow v) const { return rows[farpoint::cuda::row_of(v)]; }
};
struct NamedByRow {
  const int* rows;
  __device__ int name_of(int place) const { return rows[place]; }
  __device__ int row_of(PointRow v) const { return farpoint::cuda::row_of(v); }
};

// The leaves of one warp. Leaf j of its node i is leaf `first + i * per_node + j * apart` of the
// cloud: neighbors go to different warps, so that a sample finds all of them at work.
struct Share {
  int first, apart, per_node;

  __device__ int leaf(int node, int j) const { return first + node * per_node + j * apart; }
};

template <int kLevels>
__device__ Share share_of(int warp, int warps) {
  // Nodes stay small where a warp has many: they spread over the warps of a group.
  const int apart = kLevels == 1 || warps < kGroup ? warps : kGroup;
  return {warp / apart * (kFan * apart) + warp % apart, apart, kFan * warps};
}

// Makes leaf `leaf` of the batch by a warp, from the row of each lane; kNoRow where there is none.
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
