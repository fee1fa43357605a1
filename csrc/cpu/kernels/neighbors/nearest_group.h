// The nearest point to each of many queries, sixteen at a time, one to a lane.
//
// The queries are sorted as points are, so that those of a group lie close together: most leaves
// that one of them has to look at, all have to. A leaf then costs each query a seventh of what it
// costs alone. Boxes are left out by their distance to the box of the queries, which is exact for
// the reason in tree.h.
#pragma once

#include "cpu/kernels/neighbors/collectors.h"

namespace farpoint::cpu::FARPOINT_SIMD {

class NearestGroup {
 public:
  static constexpr int kQueries = 16;

  // The queries from place `first` on of a leaf. Leaf `near` of the tree is looked at before
  // others.
  NearestGroup(const Tree& tree, const Leaf& queries, int first, const Leaf& near)
      : tree_(tree),
        queries_(queries),
        first_(first),
        points_{load(queries.x + first), load(queries.y + first), load(queries.z + first)},
        low_{smallest(points_.x), smallest(points_.y), smallest(points_.z)},
        high_{largest(points_.x), largest(points_.y), largest(points_.z)} {
    store(best_, broadcast(kInfinity));
    for (const Leaf*& leaf : leaves_) leaf = &near;
    visit(near);
  }

  // Writes the row and the squared distance of each query at its place in the order given; returns
  // a leaf with the nearest point to one of them.
  const Leaf& run(int32_t* rows, float* squared) {
    const int top = tree_.shape.levels - 1;
    const Leaf* const first = leaves_[0];
    for (int r = 0; r < tree_.roots(); ++r) traverse(top, r, *first);
    for (int i = 0; i < kQueries; ++i) {
      const int32_t query = queries_.index[first_ + i];
      if (query == kNoIndex) break;
      const uint64_t key = visited_ > kMostLeaves ? nearest_to(i) : nearest_in(*leaves_[i], i);
      rows[query] = row_in(key);
      squared[query] = squared_of(key);
    }
    return *leaves_[0];
  }

 private:
  // Beyond this each query for itself is faster.
  static constexpr int kMostLeaves = 40;

  Point query(int i) const {
    const int k = first_ + i;
    return {broadcast(queries_.x[k]), broadcast(queries_.y[k]), broadcast(queries_.z[k])};
  }

  // From each query to one point.
  Lanes distances(const Leaf& leaf, int k) const {
    return squared_norm(sub(points_.x, broadcast(leaf.x[k])), sub(points_.y, broadcast(leaf.y[k])),
                        sub(points_.z, broadcast(leaf.z[k])));
  }

  // From the box of the queries to the box of each child.
  Lanes bounds_of(const Node& n) const {
    const auto gap = [&](int axis) {
      return max(max(sub(load(n.low[axis]), broadcast(high_[axis])),
                     sub(broadcast(low_[axis]), load(n.high[axis]))),
                 broadcast(0.f));
    };
    return squared_norm(gap(0), gap(1), gap(2));
  }

  // Whether any query may have its nearest point in a child.
  bool is_near(const Node& n, int lane) const {
    const auto outside = [&](int axis, Lanes v) {
      return max(max(sub(broadcast(n.low[axis][lane]), v), sub(v, broadcast(n.high[axis][lane]))),
                 broadcast(0.f));
    };
    return at_most(
               squared_norm(outside(0, points_.x), outside(1, points_.y), outside(2, points_.z)),
               load(best_)) != 0;
  }

  void traverse(int level, int64_t number, const Leaf& seen) {
    const Node& node = tree_.level[level][number];
    const Lanes bounds = bounds_of(node);
    float bound[kFan];
    store(bound, bounds);
    const int64_t children = tree_.shape.children(level) - number * kFan;
    uint32_t left = children < kFan ? (1u << children) - 1 : (1u << kFan) - 1;
    while ((left &= at_most(bounds, broadcast(reach_))) != 0 && visited_ <= kMostLeaves) {
      const int lane = lowest_of(left, bound);
      left &= ~(1u << lane);
      if (!is_near(node, lane)) continue;
      const int64_t child = number * kFan + lane;
      if (level > 0) {
        traverse(level - 1, child, seen);
      } else if (tree_.leaves + child != &seen) {
        visit(tree_.leaves[child]);
      }
    }
  }

  void visit(const Leaf& leaf) {
    ++visited_;
    Lanes a = distances(leaf, 0), b = distances(leaf, 1);
    for (int k = 2; k < kLeaf; k += 2) {  // two chains
      a = min(a, distances(leaf, k));
      b = min(b, distances(leaf, k + 1));
    }
    const Lanes nearest = min(a, b), best = load(best_), kept = min(nearest, best);
    for (uint32_t bits = less(nearest, best); bits; bits &= bits - 1) {
      leaves_[__builtin_ctz(bits)] = &leaf;
    }
    for (uint32_t bits = equal(nearest, best); bits; bits &= bits - 1) {
      settle(__builtin_ctz(bits), leaf);
    }
    store(best_, kept);
    reach_ = largest(kept);
  }

  // The leaf with the lower row remains.
  void settle(int i, const Leaf& leaf) {
    if (leaves_[i] == &leaf) return;
    if (nearest_in(leaf, i) < nearest_in(*leaves_[i], i)) leaves_[i] = &leaf;
  }

  uint64_t nearest_in(const Leaf& leaf, int i) const {
    const Point point = query(i);
    NearestOne one(point, kInfinity);
    one.visit(leaf);
    return one.best();
  }

  // In the whole tree, where a point as near as the best so far is known to be.
  uint64_t nearest_to(int i) const {
    const Point point = query(i);
    NearestOne one(point, best_[i]);
    Traversal<NearestOne>{tree_, point, one}.run();
    return one.best();
  }

  const Tree& tree_;
  const Leaf& queries_;
  const int first_;
  const Point points_;            // the queries, one to a lane
  const float low_[3], high_[3];  // the box around them
  float best_[kQueries];          // squared distances
  float reach_;                   // the largest of them
  const Leaf* leaves_[kQueries];  // each has a point as near as that
  int visited_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
