// What a tree is built from, and the memory it lives in.
#pragma once

#include "cpu/kernels/spatial/memory.h"
#include "cpu/kernels/spatial/parallel.h"
#include "cpu/kernels/spatial/tree.h"

namespace farpoint::cpu::FARPOINT_SIMD {

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

  explicit Shape(int64_t points) : leaves(ceil_div(points, kLeaf)) {
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
      : shape(plan.n), block_(bytes(shape)), leaves(block_.take<Leaf>(shape.leaves)) {
    for (int l = 0; l < shape.levels; ++l) level[l] = block_.take<Node>(shape.nodes[l]);
  }
  Node* root() const { return level[shape.levels - 1]; }
  int64_t roots() const { return shape.nodes[shape.levels - 1]; }

  const Shape shape;

 private:
  static size_t bytes(const Shape& s) {
    size_t sum = Block::bytes_for<Leaf>(s.leaves);
    for (int l = 0; l < s.levels; ++l) sum += Block::bytes_for<Node>(s.nodes[l]);
    return sum;
  }
  Block block_;

 public:
  Leaf* const leaves;
  Node* level[kMaxLevels];
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
