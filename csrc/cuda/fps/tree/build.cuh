// Builds a warp's part of a pruning tree: the nodes above its leaves.
#pragma once

#include "cuda/fps/tree/picker.cuh"

namespace farpoint::cuda::tree {

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
