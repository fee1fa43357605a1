// Tree searches (nearest, k nearest, ball): what collects their results, and the way through the
// tree. A collector offers
//   float reach() const       squared distance beyond which a point is of no interest
//   void visit(const Leaf&)   meets the points of a leaf
#pragma once

#include "cpu/kernels/neighbors/lowest_keys.h"
#include "cpu/kernels/spatial/build.h"

namespace farpoint::cpu::FARPOINT_SIMD {

inline uint32_t at_most(Lanes a, Lanes b) { return less(a, b) | equal(a, b); }

// One bit for each point of the leaf that is within reach; `squared` receives all 32 distances.
inline uint32_t points_within(const Leaf& leaf, const Point& q, float reach, float* squared) {
  const Lanes limit = broadcast(reach);
  uint32_t bits = 0;
  for (int k = 0; k < kLeaf; k += 16) {
    const Lanes d = squared_distance(leaf.x + k, leaf.y + k, leaf.z + k, q);
    store(squared + k, d);
    bits |= at_most(d, limit) << k;
  }
  return bits;
}

// A neighbor as one number, ordered by distance and then by row. Distances are never negative, so
// their bits order as they do.
inline uint64_t key_of(float squared, int32_t row) {
  uint32_t bits;
  std::memcpy(&bits, &squared, sizeof(bits));
  return static_cast<uint64_t>(bits) << 32 | static_cast<uint32_t>(row);
}
inline int32_t row_in(uint64_t key) { return static_cast<int32_t>(key); }
inline float squared_of(uint64_t key) {
  const auto bits = static_cast<uint32_t>(key >> 32);
  float squared;
  std::memcpy(&squared, &bits, sizeof(squared));
  return squared;
}

// Collectors of the nearest begin with a `limit`, a squared distance that is known to hold enough
// points.

class NearestOne {
 public:
  NearestOne(const Point& query, float limit) : query_(query), best_(key_of(limit, kNoIndex)) {}
  float reach() const { return squared_of(best_); }
  uint64_t best() const { return best_; }

  void visit(const Leaf& leaf) {
    const Lanes a = squared_distance(leaf.x, leaf.y, leaf.z, query_);
    const Lanes b = squared_distance(leaf.x + 16, leaf.y + 16, leaf.z + 16, query_);
    const float squared = smallest(min(a, b));
    if (squared > reach()) return;
    const Lanes want = broadcast(squared);
    const int lane =
        lowest_index(equal(a, want) | equal(b, want) << 16, leaf.index, leaf.index + 16);
    const uint64_t key = key_of(squared, leaf.index[lane]);
    best_ = key < best_ ? key : best_;
  }

 private:
  const Point& query_;
  uint64_t best_;
};

// As NearestSome, for k up to kMost, a multiple of 8.
template <int kMost>
class NearestFew {
 public:
  NearestFew(const Point& query, int64_t k, float limit)
      : query_(query), lowest_(k, key_of(limit, kNoIndex)) {}
  float reach() const { return squared_of(lowest_.highest()); }
  void read(uint64_t* keys, int64_t k) const { lowest_.read(keys, k); }

  void visit(const Leaf& leaf) {
    float squared[kLeaf];
    uint32_t bits = points_within(leaf, query_, reach(), squared);
    if (__builtin_expect(leaf.index[kLeaf - 1] == kNoIndex, 0)) bits &= points_of(leaf);
    TopK<kMost> lowest = lowest_;  // in registers
    for (; bits; bits &= bits - 1) {
      const int lane = __builtin_ctz(bits);
      lowest.offer(key_of(squared[lane], leaf.index[lane]));
    }
    lowest_ = lowest;
  }

 private:
  // One bit for each that is no padding.
  static uint32_t points_of(const Leaf& leaf) {
    uint32_t bits = 0;
    for (int k = 0; k < kLeaf; ++k) bits |= static_cast<uint32_t>(leaf.index[k] != kNoIndex) << k;
    return bits;
  }

  const Point& query_;
  TopK<kMost> lowest_;
};

class NearestSome {
 public:
  NearestSome(const Point& query, int64_t k, float limit, uint64_t* keys)
      : query_(query), lowest_(keys, k, key_of(limit, kNoIndex)) {}
  float reach() const { return squared_of(lowest_.highest()); }
  void sort() { lowest_.sort(); }

  void visit(const Leaf& leaf) {
    float squared[kLeaf];
    for (uint32_t bits = points_within(leaf, query_, reach(), squared); bits; bits &= bits - 1) {
      const int lane = __builtin_ctz(bits);
      const uint64_t key = key_of(squared[lane], leaf.index[lane]);
      if (key < lowest_.highest() && leaf.index[lane] != kNoIndex) lowest_.replace_highest(key);
    }
  }

 private:
  const Point& query_;
  LowestHeap<uint64_t> lowest_;
};

// The lowest rows of a ball, whose inside up to `inner`, but its center, does not count.
class Within {
 public:
  // Gives up, its reach negative, when more than `patience` points were within reach.
  Within(const Point& query, float inner, float reach, int64_t k, int32_t* rows, int64_t patience)
      : query_(query),
        inner_(inner),
        reach_(reach),
        wanted_(k),
        patience_(patience),
        lowest_(rows, k, kNoIndex) {}
  float reach() const { return met_ > patience_ ? -1.f : reach_; }
  bool gave_up() const { return met_ > patience_; }
  bool full() const { return met_ >= wanted_; }
  // How many rows it holds, ascending from here on.
  int64_t finish() {
    lowest_.sort();
    return full() ? wanted_ : met_;
  }

  void visit(const Leaf& leaf) {
    float squared[kLeaf];
    uint32_t bits = points_within(leaf, query_, reach_, squared);
    if (inner_ > 0) bits = outside_inner(bits, squared);
    for (; bits; bits &= bits - 1) {
      const int32_t row = leaf.index[__builtin_ctz(bits)];
      if (row == kNoIndex) continue;
      ++met_;
      if (row < lowest_.highest()) lowest_.replace_highest(row);
    }
  }

 private:
  uint32_t outside_inner(uint32_t bits, const float* squared) const {
    uint32_t kept = bits;
    for (; bits; bits &= bits - 1) {
      const float distance = squared[__builtin_ctz(bits)];
      if (distance < inner_ && distance > 0) kept &= ~(bits & -bits);
    }
    return kept;
  }

  const Point& query_;
  const float inner_, reach_;
  const int64_t wanted_, patience_;
  LowestHeap<int32_t> lowest_;
  int64_t met_ = 0;
};

// Depth-first, nearest child first: every leaf within reach is visited. A box is left out only
// where its bound is greater than the reach: at an equal distance it may hold a point of a lower
// row. The bound never exceeds the computed distance to a point inside (see tree.h), so nothing
// within reach is missed.
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
