// Partition of a cloud into spatially contiguous parts of about equal work, one for each thread,
// and the bounding boxes of a part: sixteen that enclose its points.
#pragma once

#include "cpu/kernels/levels/backend.h"
#include "cpu/kernels/spatial/tree.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// Each part has the leaves below some nodes of level 0 that follow one another, at least one node,
// and about as much work as any other part.
class Partition {
 public:
  // `parts` is at most the number of nodes.
  Partition(const FpsJob& job, const Tree& tree, int parts)
      : job(job),
        tree(tree),
        parts(parts),
        wanted(job.m - 1 + (job.distances ? 1 : 0)),
        arena_(Arena::bytes_for<int64_t>(parts + 1) + Arena::bytes_for<float>(nodes())),
        borders_(arena_.take<int64_t>(parts + 1)),
        share_(arena_.take<float>(nodes())) {
    weigh();
    float sum = 0;
    int part = 0;
    for (int64_t n = 0; n < nodes(); ++n) {
      const bool behind = sum * static_cast<float>(parts) >= static_cast<float>(part);
      if (part < parts && (behind || nodes() - n == parts - part)) borders_[part++] = n;
      sum += share_[n];
    }
    borders_[parts] = nodes();
  }

  int64_t first_node(int part) const { return borders_[part]; }
  int64_t first_point(int part) const {
    const int64_t point = first_node(part) * kFan * kLeaf;
    return point < job.n ? point : job.n;
  }
  int64_t points(int part) const { return first_point(part + 1) - first_point(part); }

  const FpsJob& job;
  const Tree& tree;  // up to level 0
  const int parts;
  const int64_t wanted;  // samples of all parts together

 private:
  // Found by trying 0 to 1 on scans of 65 536 to a million points: 0.25 to 0.5 are best.
  static constexpr float kEven = 0.4f;

  int64_t nodes() const { return tree.shape.nodes[0]; }

  // The share of each node in the work. Part of it is even, since the early samples change the
  // points everywhere. The rest goes with the later samples, which spread over the surface, densely
  // covered or not; but no leaf has more of them than points.
  void weigh() {
    const float leaf_share = kLeaf / static_cast<float>(job.m);
    float surface = spread(kInfinity);
    for (int i = 0; i < 4; ++i) surface = spread(surface * leaf_share);
    const float even = kEven / static_cast<float>(nodes());
    const float by_surface = surface > 0 ? (1 - kEven) / surface : 0;
    for (int64_t n = 0; n < nodes(); ++n) share_[n] = even + by_surface * share_[n];
  }

  // Gives each node the surface of its leaves, of each no more than `most`, and returns the sum.
  float spread(float most) {
    float sum = 0;
    for (int64_t n = 0; n < nodes(); ++n) {
      const Node& node = tree.level[0][n];
      Lanes side[3];
      for (int axis = 0; axis < 3; ++axis) {
        side[axis] = max(sub(load(node.high[axis]), load(node.low[axis])), broadcast(0.f));
      }
      float surfaces[kFan];
      store(surfaces, min(fma(side[0], side[1], fma(side[1], side[2], mul(side[2], side[0]))),
                          broadcast(most)));
      share_[n] = 0;
      for (const float s : surfaces) share_[n] += s;
      sum += share_[n];
    }
    return sum;
  }

  Arena arena_;
  int64_t* const borders_;  // first node of each part, and the end
  float* const share_;      // of each node
};

// Whether a point is nearer to one of the boxes than the root of `distance`.
inline bool within(const Node& boxes, const Point& p, float distance) {
  return less(box_distances(boxes, p), broadcast(distance)) != 0;
}

// The order of a tree leaps, from one end of a half of space to the other end of the next, and a
// box across a leap covers all in between. So the points are cut, again and again, where the two
// boxes are smallest: between nodes, or inside of one that is still wide between its leaves, or
// inside of one of these between its points.
class BoxBuilder {
 public:
  // Of the `points` points from `first` on, both multiples of a node's but for the last point of
  // all. `spare` has room for `room(points)` bounds.
  BoxBuilder(const Tree& tree, int64_t first, int64_t points, Bounds* spare)
      : tree_(tree), first_(first), last_(first + points), behind_(spare) {}

  static int64_t room(int64_t points) { return ceil_div(points, kNode) + kLeaf; }

  void build(Node& boxes) {
    Run runs[kFan];
    int found = 1;
    for (runs[0] = run(first_, last_, kNode); found < kFan; ++found) {
      int widest = 0;
      for (int r = 1; r < found; ++r) {
        if (runs[r].width > runs[widest].width) widest = r;
      }
      const Run whole = runs[widest];
      if (!(whole.width > 0)) break;
      runs[widest] = run(whole.first, whole.cut, whole.unit);
      runs[found] = run(whole.cut, whole.last, whole.unit);
    }
    for (int lane = 0; lane < kFan; ++lane) {
      set_empty(boxes, lane);
      for (int axis = 0; lane < found && axis < 3; ++axis) {
        boxes.low[axis][lane] = runs[lane].bounds.low[axis];
        boxes.high[axis][lane] = runs[lane].bounds.high[axis];
      }
    }
  }

 private:
  static constexpr int64_t kNode = kFan * kLeaf;

  struct Run {
    int64_t first, last;  // points
    int64_t unit;         // it is cut between pieces of so many points
    int64_t cut;          // the best place
    float width;          // surface of the box, 0 of what cannot be cut
    Bounds bounds;
  };

  static Bounds around(const Bounds& a, const Bounds& b) {
    return {min4(a.low, b.low), max4(a.high, b.high)};
  }
  static float surface(const Bounds& b) {
    const Float4 side = b.high - b.low;
    return side[0] * side[1] + side[1] * side[2] + side[2] * side[0];
  }

  Bounds bounds_of(int64_t point, int64_t unit) const {
    Bounds b = {};
    if (unit == 1) {
      const Leaf& leaf = tree_.leaves[point / kLeaf];
      const int64_t k = point % kLeaf;
      b.low = b.high = Float4{leaf.x[k], leaf.y[k], leaf.z[k], 0};
      return b;
    }
    const Node& node = tree_.level[0][point / kNode];
    const int64_t lane = point / kLeaf % kFan;
    for (int axis = 0; axis < 3; ++axis) {
      b.low[axis] = unit == kLeaf ? node.low[axis][lane] : smallest(load(node.low[axis]));
      b.high[axis] = unit == kLeaf ? node.high[axis][lane] : largest(load(node.high[axis]));
    }
    return b;
  }

  Run run(int64_t first, int64_t last, int64_t unit) {
    while (unit > 1 && last - first <= unit) unit = unit == kNode ? kLeaf : 1;
    const int64_t pieces = ceil_div(last - first, unit);
    const auto bounds = [&](int64_t piece) { return bounds_of(first + piece * unit, unit); };
    behind_[pieces - 1] = bounds(pieces - 1);
    for (int64_t i = pieces - 1; i-- > 0;) behind_[i] = around(bounds(i), behind_[i + 1]);
    // In the middle, where surfaces overflow and none is less than another.
    Run r = {first, last, unit, first + pieces / 2 * unit, 0, behind_[0]};
    if (pieces > 1) r.width = surface(r.bounds);
    float least = kInfinity;
    Bounds before = bounds(0);
    for (int64_t i = 1; i < pieces; ++i) {
      const float both = surface(before) * static_cast<float>(i) +
                         surface(behind_[i]) * static_cast<float>(pieces - i);
      if (both < least) least = both, r.cut = first + i * unit;
      before = around(before, bounds(i));
    }
    return r;
  }

  const Tree& tree_;
  const int64_t first_, last_;
  Bounds* const behind_;  // of a piece and all behind it
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
