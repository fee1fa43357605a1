// The nearest point to each of sixteen queries at once, one to a lane.
//
// Queries in the order of a scan lie close together, and most leaves that one of them has to look
// at, all have to. A leaf then costs each query a seventh of what it costs alone. Boxes are left
// out by their distance to the box of the queries, which is exact for the reason in tree.h.
#pragma once

#include "cpu/kernels/neighbors/backend.h"
#include "cpu/kernels/neighbors/traverse.h"

namespace farpoint::cpu::FARPOINT_SIMD {

class NearestGroup {
 public:
  static constexpr int kQueries = kGroup;

  // Of 16 rows of 3. At least one point lies nearer than `limit` to the first.
  NearestGroup(const Tree& tree, const float* queries, float limit)
      : tree_(tree), queries_(queries) {
    float axis[3][kQueries];
    for (int i = 0; i < 3 * kQueries; ++i) axis[i % 3][i / 3] = queries[i];
    points_ = {load(axis[0]), load(axis[1]), load(axis[2])};
    box_ = {{smallest(points_.x), smallest(points_.y), smallest(points_.z)},
            {largest(points_.x), largest(points_.y), largest(points_.z)}};
    store(best_, broadcast(kInfinity));
    begin_with(0, limit);
    begin_with(kQueries - 1, best_[kQueries - 1]);
  }

  // False, with nothing written, where the queries are too far apart.
  bool run(int32_t* rows, float* squared) {
    const int top = tree_.shape.levels - 1;
    for (int r = 0; r < tree_.roots(); ++r) traverse(top, r);
    if (visited_ > kMostLeaves) return false;
    for (int i = 0; i < kQueries; ++i) {
      const uint64_t key = nearest_in(*leaves_[i], i);
      rows[i] = row_in(key);
      squared[i] = squared_of(key);
    }
    return true;
  }

 private:
  // Beyond this each query for itself is faster.
  static constexpr int kMostLeaves = 40;

  struct Box {
    float low[3], high[3];
  };

  // Searches for one query alone, the first of all for the first. What it finds bounds the others.
  void begin_with(int query, float limit) {
    const Point point = broadcast_point(queries_ + 3 * query);
    NearestOne one(point, limit);
    Traversal<NearestOne>{tree_, point, one}.run();
    const Leaf& leaf = *one.leaf();
    const Lanes found = distances(leaf, one.lane()), best = load(best_);
    for (uint32_t bits = query == 0 ? 0xffff : less(found, best); bits; bits &= bits - 1) {
      leaves_[__builtin_ctz(bits)] = &leaf;
    }
    const Lanes kept = min(found, best);
    store(best_, kept);
    reach_ = largest(kept);
  }

  // From each query to one point.
  Lanes distances(const Leaf& leaf, int k) const {
    return squared_norm(sub(broadcast(leaf.x[k]), points_.x), sub(broadcast(leaf.y[k]), points_.y),
                        sub(broadcast(leaf.z[k]), points_.z));
  }

  // From the box of the queries to the box of each child.
  Lanes bounds_of(const Node& n) const {
    const auto gap = [&](int axis) {
      return max(max(sub(load(n.low[axis]), broadcast(box_.high[axis])),
                     sub(broadcast(box_.low[axis]), load(n.high[axis]))),
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

  void traverse(int level, int64_t number) {
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
      if (level == 0) {
        visit(tree_.leaves[child]);
      } else {
        traverse(level - 1, child);
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
  void settle(int query, const Leaf& leaf) {
    if (leaves_[query] == &leaf) return;
    if (nearest_in(leaf, query) < nearest_in(*leaves_[query], query)) leaves_[query] = &leaf;
  }

  uint64_t nearest_in(const Leaf& leaf, int query) const {
    const Point point = broadcast_point(queries_ + 3 * query);
    NearestOne one(point, kInfinity);
    one.visit(leaf);
    return one.best();
  }

  const Tree& tree_;
  const float* const queries_;
  Point points_;                  // the queries, one to a lane
  Box box_;                       // around them
  float best_[kQueries];          // squared distances
  float reach_;                   // the largest of them
  const Leaf* leaves_[kQueries];  // each has a point as near as that
  int visited_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
