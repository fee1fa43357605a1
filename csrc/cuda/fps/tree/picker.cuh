// Farthest point search over a pruning tree that the warps of a block share. It offers
//   Farthest farthest()          the farthest point of the warp's leaves, the lowest row on a tie
//   void apply(Point sample)     that point becomes a sample
#pragma once

#include "cuda/fps/tree/layout.cuh"

namespace farpoint::cuda::tree {

// One warp's part of a tree: its leaves, in global memory; the nodes above them; and the root of
// these, whose children are in registers, kBoxes a lane. No other warp ever reads or writes it.
template <int kLevels, class Rows, int kBoxes>
class TreePicker {
 public:
  // `leaves` are the cloud's; `root_at` and nodes[l] are the warp's, of which node n is
  // nodes[l][n * warps].
  __device__ TreePicker(Leaf* leaves, Rows rows, PointRow* root_at,
                        Node* const (&nodes)[kMaxLevels - 1], const Share& share, int warps)
      : share_(share),
        warps_(warps),
        own_(kept_global(&leaves[share.first].x[lane_id()])),
        place_(share.first * kLeaf + lane_id()),
        rows_(rows),
        root_at_(kept_shared(root_at)),
        lane_(static_cast<int>(kept(lane_id()))),
        below_(kept(lanes_below())) {
    for (int l = 0; l < kLevels - 1; ++l) nodes_[l] = nodes[l];
  }

  __device__ Farthest farthest() const {
    __syncwarp();
    float farthest[kBoxes];
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) farthest[i] = root_[i].farthest;
    return warp_farthest(farthest, root_at_, 1, lane_, rows_);
  }

  __device__ Rows rows() const { return rows_; }
  __device__ int lane() const { return lane_; }

  __device__ void apply(Point s) {
    unsigned touched[kBoxes];
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) touched[i] = touched_children(root_[i], s);
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      if (touched[i] == 0) continue;
      __syncwarp();  // all lanes have read the farthest points that are written now
      update<kLevels - 1>(i, touched[i], s, root_[i].farthest, root_at_ + i * kFan);
    }
  }

 protected:
  // Child `j` of node `parent`, a leaf or a node by its number in the warp.
  __device__ static int child_of(int parent, int j) { return parent * kFan + j; }
  __device__ Node& node(int level, int n) const { return nodes_[level][n * warps_]; }
  // Leaves from the warp's first one; unsigned, for one multiplication an address.
  __device__ unsigned leaf(int parent, int j) const {
    return static_cast<unsigned>(parent * share_.per_node + j * share_.apart);
  }

  // In bytes, for one instruction.
  __device__ float* words_of(unsigned leaf) const {
    return reinterpret_cast<float*>(reinterpret_cast<char*>(own_) + uint64_t{leaf} * sizeof(Leaf));
  }

  // Goes down to the `touched` children of a node, leaves at level 0, and brings their new farthest
  // points up: `farthest` is that of the lane's child, with its point in `at`. Returns whether any
  // of them has changed.
  template <int kLevel>
  __device__ bool update(int parent, unsigned touched, Point s, float& farthest, PointRow* at) {
    bool changed = false;
    do {
      const int j = highest_bit(touched);
      touched &= ~(1u << j);
      if constexpr (kLevel == 0) {
        changed |= update_leaf(parent, j, s, farthest, at);
      } else {
        changed |= update_node<kLevel - 1>(child_of(parent, j), j, s, farthest, at);
      }
    } while (touched != 0);
    return changed;
  }

  template <int kLevel>
  __device__ bool update_node(int number, int j, Point s, float& farthest, PointRow* at) {
    Node& below = node(kLevel, number);
    Child mine = load_child(below, lane_);
    const unsigned touched = touched_children(mine, s);
    if (touched == 0 || !update<kLevel>(number, touched, s, mine.farthest, below.at)) return false;
    below.farthest[lane_] = mine.farthest;
    __syncwarp();
    const Farthest best = warp_farthest({mine.farthest}, below.at, 1, lane_, rows_);
    if (lane_ == j) {
      farthest = best.distance;
      at[j] = best.at;
    }
    return true;
  }

  __device__ bool update_leaf(int parent, int j, Point s, float& farthest, PointRow* at) {
    const unsigned number = leaf(parent, j);
    float* const words = words_of(number);
    const int name = rows_.name_of(place_ + static_cast<int>(number) * kLeaf);
    const Point p = {words[0], words[kLeaf], words[2 * kLeaf]};
    const float nearest = words[3 * kLeaf], d = fminf(nearest, squared_distance(p, s));
    const float largest = warp_max(d);
    if (!__any_sync(kAllLanes, d < nearest)) return false;
    if (d < nearest) words[3 * kLeaf] = d;
    const unsigned tied = __ballot_sync(kAllLanes, d == largest);
    if (lane_ == j) farthest = largest;
    // Rows ascend in a leaf: of tied lanes the lowest has the lowest row.
    if (d == largest && (tied & below_) == 0) at[j] = with_row(p, name);
    return true;
  }

  const Share share_;
  const int warps_;
  float* const own_;  // this lane's first word of the warp's first leaf
  const int place_;   // and its place there
  const Rows rows_;
  PointRow* const root_at_;
  const int lane_;
  const unsigned below_;  // lanes
  Node* nodes_[kMaxLevels - 1];
  Child root_[kBoxes];
};

// Farthest points of the warps. Two sets, used in turn: a warp may write its next record while a
// slower one still reads the last. Side by side, for one address: three instructions fewer a
// search.
struct Record {
  PointRow at;
  float distance;
};
using Records = Record[2][kFan];

// The farthest of all warps. One barrier; every thread gets the result.
template <class Rows>
__device__ Farthest block_farthest(const Farthest& mine, Records& records, int turn, int warps,
                                   int warp, int lane, Rows rows) {
  if (warps == 1) return mine;
  Record* const set = records[turn % 2];
  Record* const own = set + warp;
  if (lane == 0) {
    own->at = mine.at;
    own->distance = mine.distance;
  }
  __syncthreads();
  const float theirs = lane < warps ? set[lane].distance : 0.0f;
  return warp_farthest({theirs}, &set->at, sizeof(Record) / sizeof(PointRow), lane, rows);
}

// All warps of a block.
template <int kLevels, class Rows, int kBoxes>
struct BlockPicker {
  TreePicker<kLevels, Rows, kBoxes>& of_warp;
  Records& records;
  int warps, warp;

  __device__ Farthest farthest(int turn) {
    return block_farthest(of_warp.farthest(), records, turn, warps, warp, of_warp.lane(),
                          of_warp.rows());
  }
  __device__ void apply(Point sample) { of_warp.apply(sample); }
};

// Where the nodes of this warp begin, level by level.
template <int kLevels>
__device__ void find_nodes(const Storage& storage, Node* in_shared, int64_t first, int warp,
                           Node* (&nodes)[kMaxLevels - 1]) {
  for (int l = 0; l < kLevels - 1; ++l) {
    Node* const of_cloud = in_shared ? in_shared : storage.nodes[l] + first;
    nodes[l] = of_cloud + warp;
  }
}

// Builds a warp's part of a tree: the nodes above its leaves.
template <int kLevels, class Rows, int kBoxes>
class TreeBuilder : public TreePicker<kLevels, Rows, kBoxes> {
 public:
  using TreePicker<kLevels, Rows, kBoxes>::TreePicker;

  // Every finite point is infinitely far from a sample: the farthest is the lowest finite row.
  __device__ void build(const Cloud& cloud, const Box* boxes) {
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      this->root_[i] = build_children<kLevels - 1>(cloud, boxes, i, this->root_at_ + i * kFan);
    }
  }

 private:
  __device__ static int leaves(const Cloud& cloud) { return (cloud.n + kLeaf - 1) / kLeaf; }

  // First leaf below child j of node `parent`, whose children are of a level: leaves at level 0.
  template <int kLevel>
  __device__ int leaf_below(int parent, int j) const {
    if constexpr (kLevel == 0) return this->share_.leaf(parent, j);
    return leaf_below<kLevel == 0 ? 0 : kLevel - 1>(this->child_of(parent, j), 0);
  }

  template <int kLevel>
  __device__ Child build_children(const Cloud& cloud, const Box* boxes, int parent, PointRow* at) {
    Child mine = {empty_box(), 0.0f};
    if constexpr (kLevel == 0) {
      mine = leaf_child(cloud, boxes, parent, at[lane_id()]);
    } else {
      for (int j = 0; j < kFan && leaf_below<kLevel>(parent, j) < leaves(cloud); ++j) {
        PointRow first;
        const Child child = build_node<kLevel - 1>(cloud, boxes, this->child_of(parent, j), first);
        if (lane_id() != j) continue;
        mine = child;
        at[j] = first;
      }
    }
    __syncwarp();
    return mine;
  }

  // All lanes get the node, and the lowest finite row of its points.
  template <int kLevel>
  __device__ Child build_node(const Cloud& cloud, const Box* boxes, int number, PointRow& first) {
    Node& below = this->node(kLevel, number);
    const Child mine = build_children<kLevel>(cloud, boxes, number, below.at);
    store_child(below, mine);
    const Farthest best = warp_farthest({mine.farthest}, below.at, 1, this->lane_, this->rows_);
    first = best.at;
    return {warp_box(mine.box), best.distance};
  }

  // The lane's leaf, and the lowest finite row of its points.
  __device__ Child leaf_child(const Cloud& cloud, const Box* boxes, int parent, PointRow& first) {
    const int leaf = this->share_.leaf(parent, lane_id());
    if (leaf >= leaves(cloud)) return {empty_box(), 0.0f};
    const unsigned number = this->leaf(parent, lane_id());
    const Leaf& points = *reinterpret_cast<const Leaf*>(this->words_of(number) - lane_id());
    const int place = this->place_ - lane_id() + static_cast<int>(number) * kLeaf;
#pragma unroll 1  // the first is finite, nearly always
    for (int i = 0; i < kLeaf; ++i) {
      if (points.nearest[i] == 0.0f) continue;
      first = with_row({points.x[i], points.y[i], points.z[i]}, this->rows_.name_of(place + i));
      return {boxes[leaf], infinity()};
    }
    return {empty_box(), 0.0f};
  }
};

}  // namespace farpoint::cuda::tree
