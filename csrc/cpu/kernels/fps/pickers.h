// Farthest point search over a tree, and by brute force. Both pickers offer
//   Farthest farthest() const    the farthest point now, the lowest row on a tie
//   void apply(const Farthest&)  that point becomes a sample
#pragma once

#include "cpu/kernels/spatial/build.h"

namespace farpoint::cpu::FARPOINT_SIMD {

inline Point point_of(const Farthest& f) {
  const float p[3] = {f.x, f.y, f.z};
  return broadcast_point(p);
}

// Keeps a tree up to date: a sample changes only what is nearer to it than to any other sample, a
// handful of leaves once the first hundred samples have been placed.
class TreePicker {
 public:
  explicit TreePicker(Tree& tree) : tree_(tree), arena_(bytes(tree.shape)) {
    for (int l = 0; l < tree.shape.levels; ++l) {
      touched_[l] = arena_.take<int32_t>(tree.shape.children(l) + kFan);
    }
  }

  Farthest farthest() const {
    const Node* root = tree_.root();
    const int roots = static_cast<int>(tree_.roots());
    Lanes top = load(root[0].farthest);
    for (int r = 1; r < roots; ++r) top = max(top, load(root[r].farthest));
    const Lanes want = broadcast(largest(top));
    uint64_t low = 0, high = 0;  // one bit a child
    for (int r = 0; r < roots && r < 4; ++r) {
      low |= static_cast<uint64_t>(equal(load(root[r].farthest), want)) << 16 * r;
    }
    for (int r = 4; r < roots; ++r) {
      high |= static_cast<uint64_t>(equal(load(root[r].farthest), want)) << 16 * (r - 4);
    }
    if (__builtin_expect(__builtin_popcountll(low) + __builtin_popcountll(high) > 1, 0)) {
      return lowest_of_tied(low, high);
    }
    const int best = low ? __builtin_ctzll(low) : 64 + __builtin_ctzll(high);
    return farthest_of(root[best / kFan], best % kFan);
  }

  void apply(const Farthest& f) {
    const Point s = point_of(f);
    descend(s);
    update_leaves(s);
    ascend();
  }

 private:
  // Lists what the sample may change. Counts are local: the lists are integers too, and a counter
  // in memory would be read again after every write to them.
  void descend(const Point& s) {
    const int top = tree_.shape.levels - 1;
    int count = 0;
    for (int r = 0; r < tree_.roots(); ++r) {
      count += touch(tree_.root()[r], r, s, touched_[top] + count);
    }
    count_[top] = count;
    for (int l = top - 1; l >= 0; --l) {
      const int nodes = count;
      count = 0;
      for (int i = 0; i < nodes; ++i) {
        const int32_t node = touched_[l + 1][i];
        count += touch(tree_.level[l][node], node, s, touched_[l] + count);
      }
      count_[l] = count;
    }
  }

  void update_leaves(const Point& s) {
    const int32_t* touched = touched_[0];
    const int count = count_[0];
    for (int i = 0; i < count; ++i) {
      const int32_t leaf = touched[i];
      set_farthest(tree_.level[0][leaf / kFan], leaf % kFan, update_leaf(tree_.leaves[leaf], s));
    }
  }

  // Brings the new farthest points of the leaves up.
  void ascend() {
    for (int l = 1; l < tree_.shape.levels; ++l) {
      for (int i = 0; i < count_[l]; ++i) {
        const int32_t node = touched_[l][i];
        set_farthest(tree_.level[l][node / kFan], node % kFan,
                     farthest_of(tree_.level[l - 1][node]));
      }
    }
  }

  static size_t bytes(const Shape& s) {
    size_t sum = 0;
    for (int l = 0; l < s.levels; ++l) sum += Arena::bytes_for<int32_t>(s.children(l) + kFan);
    return sum;
  }

  Farthest lowest_of_tied(uint64_t low, uint64_t high) const {
    Farthest best = {0, kNoIndex, 0, 0, 0};
    for (int r = 0; r < tree_.roots(); ++r) {
      const Node& node = tree_.root()[r];
      const uint32_t bits = (r < 4 ? low >> 16 * r : high >> 16 * (r - 4)) & 0xffff;
      if (bits == 0) continue;
      const int lane = lowest_index(bits, node.index);
      if (node.index[lane] < best.index) best = farthest_of(node, lane);
    }
    return best;
  }

  static int touch(const Node& node, int32_t number, const Point& s, int32_t* out) {
    return append(touched_children(node, s), number * kFan, out);
  }

  Tree& tree_;
  Arena arena_;
  int count_[kMaxLevels];
  int32_t* touched_[kMaxLevels];  // children of nodes of that level, in tree order
};

// Goes over every point for every sample: no preparation, best for few points or few samples.
class PlainPicker {
 public:
  PlainPicker(const float* xyz, int64_t n, const float* first)
      : padded_((n + 15) / 16 * 16), arena_(4 * Arena::bytes_for<float>(padded_)) {
    for (float*& axis : axis_) axis = arena_.take<float>(padded_);
    distance_ = arena_.take<float>(padded_);
    for (int64_t i = 0; i < padded_; ++i) {
      const float* p = xyz + 3 * (i < n ? i : n - 1);
      for (int axis = 0; axis < 3; ++axis) axis_[axis][i] = p[axis];
      distance_[i] = i < n ? kInfinity : -1.f;
    }
    update(first);
  }

  Farthest farthest() const {
    const Lanes want = broadcast(farthest_);
    int64_t i = 0;
    uint32_t bits;
    while ((bits = equal(load(distance_ + i), want)) == 0) i += 16;
    i += __builtin_ctz(bits);
    return {farthest_, static_cast<int32_t>(i), axis_[0][i], axis_[1][i], axis_[2][i]};
  }

  void apply(const Farthest& f) {
    const float p[3] = {f.x, f.y, f.z};
    update(p);
  }

 private:
  void update(const float* p) {
    const Point s = broadcast_point(p);
    Lanes top = broadcast(-1.f);
    for (int64_t i = 0; i < padded_; i += 16) {
      const Lanes d = squared_distance(axis_[0] + i, axis_[1] + i, axis_[2] + i, s);
      const Lanes kept = min(load(distance_ + i), d);
      store(distance_ + i, kept);
      top = max(top, kept);
    }
    farthest_ = largest(top);
  }

  const int64_t padded_;
  Arena arena_;
  float* axis_[3];
  float* distance_;
  float farthest_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
