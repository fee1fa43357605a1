// A shallow tree over points in spatial order: leaves of 32 points, nodes of 16 children, in
// structure-of-arrays form so that one register tests a whole node against a sample.
//
// Pruning is exact. The distance from a sample to a box is computed with the operations of the
// point distance in the same order, and rounding is monotone, so it never exceeds the computed
// distance to a point inside. A child whose farthest point is no farther than that stays as it is.
#pragma once

#include <cstddef>

#include "cpu/kernels/spatial/buffer_cache.h"
#include "cpu/kernels/spatial/geometry.h"
#include "cpu/kernels/spatial/parallel.h"

namespace farpoint::cpu::FARPOINT_SIMD {

constexpr int kLeaf = 32;
constexpr int64_t kUnsorted = 4 * kLeaf;  // points that may stay unsorted among themselves
constexpr int kFan = 16;
constexpr int kRoots = 8;  // the top level: as many nodes as are tested for every sample
constexpr int kMaxLevels = 8;
constexpr int32_t kNoIndex = INT32_MAX;
constexpr float kInfinity = __builtin_inff();

struct alignas(64) Leaf {
  float x[kLeaf], y[kLeaf], z[kLeaf];
  float distance[kLeaf];  // squared, to the nearest sample; -1 pads
  int32_t index[kLeaf];   // row in the cloud
};

struct alignas(64) Node {
  float low[3][kFan], high[3][kFan];
  // The farthest point of each child, the lowest row on a tie: squared distance, row, coordinates.
  float farthest[kFan];
  int32_t index[kFan];
  float at[3][kFan];
};

struct Farthest {
  float distance;
  int32_t index;
  float x, y, z;
};

inline Farthest farthest_of(const Node& n, int lane) {
  return {n.farthest[lane], n.index[lane], n.at[0][lane], n.at[1][lane], n.at[2][lane]};
}

inline void set_farthest(Node& n, int lane, const Farthest& f) {
  n.farthest[lane] = f.distance;
  n.index[lane] = f.index;
  n.at[0][lane] = f.x;
  n.at[1][lane] = f.y;
  n.at[2][lane] = f.z;
}

// The set bit whose index is lowest, of 16 at `low` and 16 at `high`; one bit is by far the common
// case, except in a lattice.
inline int lowest_index(uint32_t bits, const int32_t* low, const int32_t* high) {
  if (__builtin_expect((bits & (bits - 1)) == 0, 1)) return __builtin_ctz(bits);
  const uint32_t first = bits & 0xffff, second = bits >> 16;
  if (first == 0) return 16 + lowest_lane(second, high);
  const int a = lowest_lane(first, low), b = second ? lowest_lane(second, high) : 0;
  return second == 0 || low[a] < high[b] ? a : 16 + b;
}

inline Farthest farthest_of(const Node& n) {
  const Lanes f = load(n.farthest);
  return farthest_of(n, lowest_index(equal(f, broadcast(largest(f))), n.index, n.index));
}

// The squared distance from a point to the box of each child.
inline Lanes box_distances(const Node& n, const Point& p) {
  const Lanes zero = broadcast(0.f);
  const auto outside = [&](int axis, Lanes v) {
    return max(max(sub(load(n.low[axis]), v), sub(v, load(n.high[axis]))), zero);
  };
  return squared_norm(outside(0, p.x), outside(1, p.y), outside(2, p.z));
}

// The children whose farthest point is nearer to `s` than to any sample; `some` are all that may
// have such a point.
inline uint32_t farthest_nearer(const Node& n, const Point& s, uint32_t some) {
  if constexpr (kRegisterBytes > 16) {
    return less(squared_distance(n.at[0], n.at[1], n.at[2], s), load(n.farthest));
  }
  uint32_t nearer = 0;
  for (uint32_t bits = some; bits; bits &= bits - 1) {
    const int k = __builtin_ctz(bits);
    const float x = n.at[0][k] - first(s.x), y = n.at[1][k] - first(s.y),
                z = n.at[2][k] - first(s.z);
    const float d = __builtin_fmaf(z, z, __builtin_fmaf(y, y, x * x));
    nearer |= static_cast<uint32_t>(d < n.farthest[k]) << k;
  }
  return nearer;
}

// The children that sample `s` may change, and those among them whose farthest point it changes.
// Any other keeps its farthest point, since distances only fall.
struct Touched {
  uint32_t some, farthest;
};

inline Touched touched_children(const Node& n, const Point& s) {
  const uint32_t some = less(box_distances(n, s), load(n.farthest));
  return {some, farthest_nearer(n, s, some)};
}

// The new distances of sixteen points of the leaf, from point `k` on.
inline Lanes update_distances(Leaf& leaf, int k, const Point& s) {
  const Lanes d = squared_distance(leaf.x + k, leaf.y + k, leaf.z + k, s);
  const Lanes kept = min(load(leaf.distance + k), d);
  store(leaf.distance + k, kept);
  return kept;
}
inline void update_distances(Leaf& leaf, const Point& s) {
  for (int k = 0; k < kLeaf; k += 16) update_distances(leaf, k, s);
}

inline Farthest update_leaf(Leaf& leaf, const Point& s) {
  const Lanes a = update_distances(leaf, 0, s), b = update_distances(leaf, 16, s);
  const float best = largest(max(a, b));
  const Lanes want = broadcast(best);
  const int k = lowest_index(equal(a, want) | equal(b, want) << 16, leaf.index, leaf.index + 16);
  return {best, leaf.index[k], leaf.x[k], leaf.y[k], leaf.z[k]};
}

inline void set_box(Node& n, int lane, int axis, const float* values) {
  const Lanes a = load(values), b = load(values + 16);
  n.low[axis][lane] = smallest(min(a, b));
  n.high[axis][lane] = largest(max(a, b));
}

// Child `lane` of `n` becomes a leaf whose points are in place, seen from the first sample.
inline void set_leaf(Node& n, int lane, Leaf& leaf, const float* first) {
  set_box(n, lane, 0, leaf.x);
  set_box(n, lane, 1, leaf.y);
  set_box(n, lane, 2, leaf.z);
  set_farthest(n, lane, update_leaf(leaf, broadcast_point(first)));
}

// Child `lane` of `n` becomes a node with `children` children.
inline void set_node(Node& n, int lane, const Node& child, int children) {
  for (int axis = 0; axis < 3; ++axis) {
    float low = child.low[axis][0], high = child.high[axis][0];
    for (int k = 1; k < children; ++k) {
      low = child.low[axis][k] < low ? child.low[axis][k] : low;
      high = child.high[axis][k] > high ? child.high[axis][k] : high;
    }
    n.low[axis][lane] = low;
    n.high[axis][lane] = high;
  }
  set_farthest(n, lane, farthest_of(child));
}

// A place without a child is never touched and never the farthest.
inline void set_empty(Node& n, int lane) {
  for (int axis = 0; axis < 3; ++axis) {
    n.low[axis][lane] = kInfinity;
    n.high[axis][lane] = -kInfinity;
  }
  set_farthest(n, lane, {-1.f, kNoIndex, 0, 0, 0});
}

// One buffer for a whole cloud, acquired and released at once.
class Arena {
 public:
  explicit Arena(size_t bytes) : buffer_(acquire_buffer(bytes)) {}
  ~Arena() { release_buffer(buffer_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The next `count` values of type T, on a cache line of their own.
  template <class T>
  T* take(size_t count) {
    T* p = reinterpret_cast<T*>(static_cast<char*>(buffer_.data) + used_);
    used_ += bytes_for<T>(count);
    return p;
  }
  template <class T>
  static constexpr size_t bytes_for(size_t count) {
    return (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

 private:
  static constexpr size_t kCacheLine = 64;
  const Buffer buffer_;
  size_t used_ = 0;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many of 0 to n - 1, from 0 on, have a property that none behind the first without it has.
template <class Property>
int64_t count_while(int64_t n, const Property& has) {
  int64_t low = 0;
  while (low < n) {
    const int64_t middle = (low + n) / 2;
    has(middle) ? low = middle + 1 : n = middle;
  }
  return low;
}

struct TreePlan {
  const float* xyz;  // n >= 1 rows of 3
  int64_t n;
  int64_t enough;      // points that may stay unsorted among themselves, at least kUnsorted
  const float* first;  // the point that distances start from
  Team& team;
  const std::atomic<int>* cancelled;  // or nullptr
  int64_t deadline = 0;               // of FpsTask
};

// The levels of a tree: level 0 holds the parents of leaves, the last at most kRoots nodes.
struct Shape {
  int64_t leaves;
  int levels = 0;
  int64_t nodes[kMaxLevels];

  explicit Shape(int64_t leaf_count) : leaves(leaf_count) {
    int64_t children = leaves;
    do {
      children = nodes[levels++] = ceil_div(children, kFan);
    } while (children > kRoots);
  }
  int64_t children(int level) const { return level == 0 ? leaves : nodes[level - 1]; }
};

class Tree {
 public:
  explicit Tree(const TreePlan& plan)
      : shape(ceil_div(plan.n, kLeaf)),
        arena_(Arena::bytes_for<Leaf>(shape.leaves) + bytes_from(0)),
        leaves(arena_.take<Leaf>(shape.leaves)) {
    take_levels(0);
  }
  // Of the leaves of `whole` below its nodes `first` to `last` of level 0, which stay there. The
  // levels above are its own and still to be filled.
  Tree(const Tree& whole, int64_t first, int64_t last)
      : shape((last * kFan < whole.shape.leaves ? last * kFan : whole.shape.leaves) - first * kFan),
        arena_(bytes_from(1)),
        leaves(whole.leaves + first * kFan) {
    level[0] = whole.level[0] + first;
    take_levels(1);
  }
  Node* root() const { return level[shape.levels - 1]; }
  int64_t roots() const { return shape.nodes[shape.levels - 1]; }

  const Shape shape;

 private:
  size_t bytes_from(int lowest) const {
    size_t sum = 0;
    for (int l = lowest; l < shape.levels; ++l) sum += Arena::bytes_for<Node>(shape.nodes[l]);
    return sum;
  }
  void take_levels(int lowest) {
    for (int l = lowest; l < shape.levels; ++l) level[l] = arena_.take<Node>(shape.nodes[l]);
  }
  Arena arena_;

 public:
  Leaf* const leaves;
  Node* level[kMaxLevels];
};

// Fills the levels above level 0.
inline void build_upper_levels(Tree& tree) {
  const Shape& s = tree.shape;
  for (int l = 1; l < s.levels; ++l) {
    for (int64_t c = 0; c < s.nodes[l] * kFan; ++c) {
      Node& parent = tree.level[l][c / kFan];
      const int lane = static_cast<int>(c % kFan);
      if (c >= s.nodes[l - 1]) {
        set_empty(parent, lane);
        continue;
      }
      const int64_t children = s.children(l - 1) - c * kFan;
      set_node(parent, lane, tree.level[l - 1][c],
               static_cast<int>(children < kFan ? children : kFan));
    }
  }
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
