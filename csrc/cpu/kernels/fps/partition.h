// Partition of a cloud into spatially contiguous parts of about equal work, one for each thread.
#pragma once

#include "cpu/kernels/levels/backend.h"
#include "cpu/kernels/spatial/tree_storage.h"

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

}  // namespace farpoint::cpu::FARPOINT_SIMD
