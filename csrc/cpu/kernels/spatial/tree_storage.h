// Storage of a tree: its input, the shape of its levels and the arena that holds its nodes.
#pragma once

#include <cstddef>

#include "cpu/kernels/spatial/buffer_cache.h"
#include "cpu/kernels/spatial/parallel.h"
#include "cpu/kernels/spatial/tree.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// One buffer for a whole cloud, acquired and released at once.
class Arena {
 public:
  Arena() = default;
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
  Buffer buffer_ = {};
  size_t used_ = 0;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct TreePlan {
  const float* xyz;  // n >= 1 rows of 3
  int64_t n;
  int64_t enough;      // points that may stay unsorted among themselves, at least kLeaf
  const float* first;  // the point that distances start from
  Team& team;
  const std::atomic<int>* cancelled;  // or nullptr
};

inline bool stopped(const std::atomic<int>* cancelled) {
  return cancelled && cancelled->load(std::memory_order_relaxed) != 0;
}

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
