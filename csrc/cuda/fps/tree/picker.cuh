// Farthest point search over a pruning tree that the warps of a block share. It offers
//   Farthest farthest()          the farthest point of the warp's leaves, the lowest row on a tie
//   void apply(Point sample)     that point becomes a sample
#pragma once

#include "cuda/fps/tree/layout.cuh"

namespace farpoint::cuda::tree {

// One warp's part of a tree: its leaves, in global memory; the nodes above them; and the root of
// these, whose children are in registers, a lane each. No other warp ever reads or writes it.
template <int kLevels>
class TreePicker {
 public:
  // `points` and `nearest` are the cloud's; `root_at` and nodes[l] are the warp's, of which node n
  // is nodes[l][n * warps].
  __device__ TreePicker(PointRow* points, float* nearest, PointRow* root_at,
                        Node* const (&nodes)[kMaxLevels - 1], const Share& share, int warps)
      : share_(share), warps_(warps), root_at_(root_at) {
    const int64_t own = int64_t{share.first} * kLeaf + lane_id();
    points_ = points + own;
    nearest_ = nearest + own;
    for (int l = 0; l < kLevels - 1; ++l) nodes_[l] = nodes[l];
  }

  __device__ Farthest farthest() const {
    __syncwarp();
    return warp_farthest(root_.farthest, root_at_);
  }

  __device__ void apply(Point s) {
    const unsigned touched = touched_children(root_, s);
    if (touched != 0) update<kLevels - 1>(0, touched, s, root_.farthest, root_at_);
  }

 protected:
  // Child `j` of node `parent`, a leaf or a node by its number in the warp.
  __device__ static int child_of(int parent, int j) { return parent * kFan + j; }
  __device__ Node& node(int level, int n) const { return nodes_[level][n * warps_]; }
  // From this lane's place in the warp's first leaf; unsigned, for one multiplication an address.
  __device__ unsigned place(int parent, int j) const {
    return static_cast<unsigned>(parent * share_.per_node + j * share_.apart) * kLeaf;
  }

  // Goes down to the `touched` children of a node, leaves at level 0, and brings their new farthest
  // points up: `farthest` is that of the lane's child, with its point in `at`.
  template <int kLevel>
  __device__ void update(int parent, unsigned touched, Point s, float& farthest, PointRow* at) {
    if constexpr (kLevel == 0) {
      update_leaves(parent, touched, s, farthest, at);
    } else {
      for (; touched != 0; touched &= ~(1u << highest_bit(touched))) {
        const int j = highest_bit(touched);
        update_node<kLevel - 1>(child_of(parent, j), j, s, farthest, at);
      }
    }
  }

  template <int kLevel>
  __device__ void update_node(int number, int j, Point s, float& farthest, PointRow* at) {
    tally(Work::kNodes, 1);
    Node& below = node(kLevel, number);
    Child mine = load_child(below);
    const unsigned touched = touched_children(mine, s);
    if (touched == 0) return;
    update<kLevel>(number, touched, s, mine.farthest, below.at);
    below.farthest[lane_id()] = mine.farthest;
    __syncwarp();
    const Farthest best = warp_farthest(mine.farthest, below.at);
    if (lane_id() != j) return;
    farthest = best.distance;
    at[j] = best.at;
  }

  // Two leaves at a time, for the latency of memory; the last one twice, which changes nothing.
  __device__ void update_leaves(int parent, unsigned touched, Point s, float& farthest,
                                PointRow* at) {
    do {
      const int j = highest_bit(touched);
      const unsigned others = touched & ~(1u << j);
      const int k = highest_bit(others != 0 ? others : touched);
      touched = others & ~(1u << k);
      const unsigned first = place(parent, j), second = place(parent, k);
      tally(Work::kLeaves, j == k ? 1 : 2);
      const PointRow p = points_[first], q = points_[second];
      const float p_nearest = nearest_[first], q_nearest = nearest_[second];
      const float d = fminf(p_nearest, squared_distance(point_of(p), s));
      const float e = fminf(q_nearest, squared_distance(point_of(q), s));
      if (d < p_nearest) nearest_[first] = d;
      if (e < q_nearest) nearest_[second] = e;
      set_farthest(j, p, d, farthest, at);
      set_farthest(k, q, e, farthest, at);
    } while (touched != 0);
  }

  // Rows ascend in a leaf: of tied lanes the lowest has the lowest row.
  __device__ static void set_farthest(int j, PointRow p, float distance, float& farthest,
                                      PointRow* at) {
    const float largest = warp_max(distance);
    const unsigned tied = __ballot_sync(kAllLanes, distance == largest);
    if (lane_id() == j) farthest = largest;
    const unsigned own = lanes_below() + 1u;
    if ((tied & (2u * lanes_below() + 1u)) == own) at[j] = p;
  }

  const Share share_;
  const int warps_;
  PointRow* points_;  // at this lane's place in the warp's first leaf
  float* nearest_;
  PointRow* const root_at_;
  Node* nodes_[kMaxLevels - 1];
  Child root_;
};

}  // namespace farpoint::cuda::tree
