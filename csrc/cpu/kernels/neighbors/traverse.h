// Depth-first tree traversal, nearest child first, that visits every leaf within reach.
//
// A box is left out only where its bound is greater than the reach: at an equal distance it may
// hold a point of a lower row. The bound never exceeds the computed distance to a point inside
// (see tree.h), so nothing within reach is missed.
#pragma once

#include "cpu/kernels/neighbors/collectors.h"
#include "cpu/kernels/spatial/bits.h"
#include "cpu/kernels/spatial/build.h"

namespace farpoint::cpu::FARPOINT_SIMD {

template <class Collector>
struct Traversal {
  const Tree& tree;
  const Point& query;
  Collector& collector;

  void run() {
    const int top = tree.shape.levels - 1;
    const int roots = static_cast<int>(tree.roots());
    float nearest[kRoots];
    for (int r = 0; r < roots; ++r) nearest[r] = smallest(box_distances(tree.root()[r], query));
    for (uint32_t left = (1u << roots) - 1; left;) {
      const int r = lowest_of(left, nearest);
      if (nearest[r] > collector.reach()) return;
      traverse(top, r);
      left &= ~(1u << r);
    }
  }

 private:
  void traverse(int level, int64_t node) {
    const Lanes bounds = box_distances(tree.level[level][node], query);
    float bound[kFan];
    store(bound, bounds);
    const int64_t children = tree.shape.children(level) - node * kFan;
    uint32_t left = children < kFan ? (1u << children) - 1 : (1u << kFan) - 1;
    while ((left &= at_most(bounds, broadcast(collector.reach()))) != 0) {
      const int lane = lowest_of(left, bound);
      left &= ~(1u << lane);
      const int64_t child = node * kFan + lane;
      if (level == 0) {
        collector.visit(tree.leaves[child]);
      } else {
        traverse(level - 1, child);
      }
    }
  }
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
