// The points of each cloud along a space-filling curve, in leaves of 32 with boxes, nodes of 32
// leaves with boxes, groups of 32 nodes; and the way of a warp to those that a query can need.
//
// Leaving out is exact. The distance from a query to a box never exceeds the computed distance to a
// point inside (see fps/tree/node.cuh), and a box as far as the farthest distance that still counts
// is looked into, since ties go by row.
#pragma once

#include "cuda/common/launch.cuh"
#include "cuda/fps/tree/node.cuh"
#include "cuda/neighbors/search.cuh"

namespace farpoint::cuda {

constexpr int kFan = kWarp;
constexpr int kNodePoints = kFan * kWarp;
constexpr unsigned kNoBound = ~0u;  // farther than any distance, and than a point's that has none

// The boxes of 32 leaves or nodes, a word of each row for a lane.
struct BoxRow {
  float low[3][kFan], high[3][kFan];
};

// Of all clouds, in global memory.
struct SpatialIndex {
  PointRow* points;  // (batch, nodes, 32, 32), padded with kNoRow
  BoxRow* leaves;    // (batch, nodes)
  BoxRow* nodes;     // (batch, groups)
  int nodes_per_cloud, groups_per_cloud;
};

struct IndexedCloud {
  const PointRow* points;
  const BoxRow* leaves;
  const BoxRow* nodes;
  int n;

  __device__ int groups() const { return (n - 1) / (kFan * kNodePoints) + 1; }
};

__device__ inline IndexedCloud indexed_cloud(const SearchBatch& batch, const SpatialIndex& index,
                                             int64_t b) {
  const int64_t nodes = b * index.nodes_per_cloud;
  return {index.points + nodes * kNodePoints, index.leaves + nodes,
          index.nodes + b * index.groups_per_cloud, search_cloud(batch, b).n};
}

// No point of the lane's box has a lower distance, as the bits of one.
__device__ inline unsigned lower_bound(const BoxRow& boxes, Point query, bool exists) {
  const int lane = lane_id();
  const tree::Box box = {{boxes.low[0][lane], boxes.low[1][lane], boxes.low[2][lane]},
                         {boxes.high[0][lane], boxes.high[1][lane], boxes.high[2][lane]}};
  const unsigned bits = __float_as_uint(tree::box_distance(box, query));
  return exists ? min(bits, kInfinity) : kNoBound;
}

// The lane's box of a group of nodes.
__device__ inline unsigned node_bound(const IndexedCloud& cloud, int group, Point query) {
  const int64_t first = (int64_t{group} * kFan + lane_id()) * kNodePoints;
  return lower_bound(cloud.nodes[group], query, first < cloud.n);
}

// The lane's box of a node of leaves.
__device__ inline unsigned leaf_bound(const IndexedCloud& cloud, int node, Point query) {
  const int64_t first = int64_t{node} * kNodePoints + lane_id() * kWarp;
  return lower_bound(cloud.leaves[node], query, first < cloud.n);
}

// Calls visit(lane) for the boxes that the goal admits, the nearest first.
template <typename Goal, typename Visit>
__device__ void each_admitted(unsigned mine, const Goal& goal, Visit visit) {
  for (;;) {
    const unsigned least = __reduce_min_sync(kAllLanes, mine);
    if (least == kNoBound || !goal.admits(least)) return;
    const int nearest = highest_bit(__ballot_sync(kAllLanes, mine == least));
    if (lane_id() == nearest) mine = kNoBound;
    visit(nearest);
  }
}

// The group with the node nearest to the query: what is near is worth knowing first.
__device__ inline int home_group(const IndexedCloud& cloud, Point query) {
  int home = 0;
  unsigned least = kNoBound;
  for (int group = 0; group < cloud.groups(); ++group) {
    const unsigned here = node_bound(cloud, group, query);
    if (here < least) least = here, home = group;
  }
  const unsigned lowest = __reduce_min_sync(kAllLanes, least);
  const int lane = highest_bit(__ballot_sync(kAllLanes, least == lowest));
  return __shfl_sync(kAllLanes, home, lane);
}

// Offers the leaves that can matter to a goal:
//   bool admits(unsigned bits)  whether a point at this distance could still count; to all alike
//   void offer(PointRow mine)   a point for each lane; its row is kNoRow where there is none
// `query` may be anything. Called by whole warps.
template <typename Goal>
__device__ void search(const IndexedCloud& cloud, Point query, Goal& goal) {
  if (cloud.n == 0) return;
  const int groups = cloud.groups();
  const int home = groups > 1 ? home_group(cloud, query) : 0;
  for (int i = 0; i < groups; ++i) {
    const int group = home + i < groups ? home + i : home + i - groups;
    each_admitted(node_bound(cloud, group, query), goal, [&](int child) {
      const int node = group * kFan + child;
      each_admitted(leaf_bound(cloud, node, query), goal, [&](int leaf) {
        const int64_t first = (int64_t{node} * kFan + leaf) * kWarp;
        goal.offer(cloud.points[first + lane_id()]);
      });
    });
  }
}

// Queues the kernels that make an index of the batch's clouds in `batch.index`.
int build_index(const SearchBatch& batch, SpatialIndex& index, int device, void* stream);

// Searches run a warp per query. For a fifth block of a processor, ptxas would spill long lists.
constexpr int kSearchThreads = 256, kQueriesPerBlock = kSearchThreads / kWarp, kSearchBlocks = 4;

// The query of the warp, and its cloud.
struct WarpQuery {
  int64_t b, number;
  bool exists;
};

__device__ inline WarpQuery warp_query(const SearchBatch& batch) {
  const int64_t number = int64_t{blockIdx.x} * kQueriesPerBlock + warp_id();
  return {number / batch.queries_per_cloud, number, number < batch.batch * batch.queries_per_cloud};
}

inline LaunchShape search_shape(const SearchBatch& batch) {
  return {ceil_div(batch.batch * batch.queries_per_cloud, kQueriesPerBlock), kSearchThreads};
}

}  // namespace farpoint::cuda
