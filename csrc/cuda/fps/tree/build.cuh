// Builds a warp's part of a pruning tree: leaves from the rows in spatial order, then the nodes
// above.
#pragma once

#include "cuda/fps/tree/picker.cuh"

namespace farpoint::cuda::tree {

template <int kLevels, class Rows>
class TreeBuilder : public TreePicker<kLevels, Rows> {
 public:
  using TreePicker<kLevels, Rows>::TreePicker;

  // Every finite point is infinitely far from a sample: the farthest is the lowest finite row.
  __device__ void build(const Cloud& cloud, const int* order, int* rows) {
    to_ = rows;
    this->root_ = build_children<kLevels - 1>(cloud, order, 0, this->root_at_);
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
  __device__ Child build_children(const Cloud& cloud, const int* order, int parent, PointRow* at) {
    Child mine = {empty_box(), 0.0f};
    for (int j = 0; j < kFan && leaf_below<kLevel>(parent, j) < leaves(cloud); ++j) {
      PointRow first;
      const Child child = build_child<kLevel>(cloud, order, parent, j, first);
      if (lane_id() != j) continue;
      mine = child;
      at[j] = first;
    }
    __syncwarp();
    return mine;
  }

  // All lanes get the child, and the lowest finite row of its points.
  template <int kLevel>
  __device__ Child build_child(const Cloud& cloud, const int* order, int parent, int j,
                               PointRow& first) {
    if constexpr (kLevel == 0) {
      return build_leaf(cloud, order, parent, j, first);
    } else {
      const int number = this->child_of(parent, j);
      Node& below = this->node(kLevel - 1, number);
      const Child mine = build_children<kLevel - 1>(cloud, order, number, below.at);
      store_child(below, mine);
      const Farthest best = warp_farthest(mine.farthest, below.at, 1, this->lane_, this->rows_);
      first = best.at;
      return {warp_box(mine.box), best.distance};
    }
  }

  __device__ Child build_leaf(const Cloud& cloud, const int* order, int parent, int j,
                              PointRow& first) {
    const int position = this->share_.leaf(parent, j) * kLeaf + lane_id();
    const int row = warp_sorted(position < cloud.n ? order[position] : kNoRow);
    const Point p = row != kNoRow ? cloud.point(row) : Point{0.0f, 0.0f, 0.0f};
    const bool counts = row != kNoRow && is_finite(p);
    const unsigned leaf = this->leaf(parent, j);
    float* const words = this->words_of(leaf);
    const int place = this->place_ + static_cast<int>(leaf) * kLeaf;
    words[0] = p.x, words[kLeaf] = p.y, words[2 * kLeaf] = p.z;
    words[3 * kLeaf] = counts ? infinity() : 0.0f;
    to_[place] = row;
    const unsigned finite = __ballot_sync(kAllLanes, counts);
    const int lane = finite != 0 ? __ffs(static_cast<int>(finite)) - 1 : 0;
    first = {__shfl_sync(kAllLanes, p.x, lane), __shfl_sync(kAllLanes, p.y, lane),
             __shfl_sync(kAllLanes, p.z, lane), 0.0f};
    const int name = this->rows_.name_of(place);
    first.w = __int_as_float(__shfl_sync(kAllLanes, name, lane));
    return {warp_box(counts ? Box{p, p} : empty_box()), finite != 0 ? infinity() : 0.0f};
  }

  int* to_;
};

}  // namespace farpoint::cuda::tree
