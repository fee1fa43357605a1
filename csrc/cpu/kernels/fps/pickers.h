// Farthest point search over a tree, and by brute force. The pickers offer
//   Sample farthest() const    the farthest point now, the lowest row on a tie
//   void apply(const Sample&)  that point becomes a sample
#pragma once

#include "cpu/kernels/spatial/build.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// The point is in registers: through memory the next sample would wait for it.
struct Sample {
  float distance;
  int32_t index;
  Point at;
};

inline Sample sample_of(const Node& n, int lane) {
  const Point at = {broadcast(n.at[0][lane]), broadcast(n.at[1][lane]), broadcast(n.at[2][lane])};
  return {n.farthest[lane], n.index[lane], at};
}

// Keeps a tree up to date: a sample changes only what is nearer to it than to any other sample, a
// handful of leaves once the first hundred samples have been placed. In most of these the farthest
// point stays the farthest, so that only distances are to be written, and nothing goes up.
class TreePicker {
 public:
  explicit TreePicker(Tree& tree) : tree_(tree), arena_(bytes(tree.shape)) {
    for (int l = 0; l < tree.shape.levels; ++l) {
      touched_[l] = arena_.take<int32_t>(tree.shape.children(l) + kFan);
      changed_[l] = arena_.take<int32_t>(tree.shape.children(l) + kFan);
    }
  }

  [[gnu::always_inline]] Sample farthest() const {
    const Node* root = tree_.root();
    const int roots = static_cast<int>(tree_.roots());
    Lanes top = load(root[0].farthest), other = load(root[roots - 1].farthest);
    for (int r = 1; r + 1 < roots; r += 2) {  // two chains
      top = max(top, load(root[r].farthest));
      other = max(other, load(root[r + 1].farthest));
    }
    top = max(top, other);
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
    return sample_of(root[best / kFan], best % kFan);
  }

  [[gnu::always_inline]] void apply(const Sample& sample) {
    const Point& s = sample.at;
    const Counts found = descend(s);
    update_leaves(s, found.changed);
    ascend();
    // Last, since no sample waits for these.
    Leaf* const leaves = tree_.leaves;
    const int32_t* const touched = touched_[0];
    for (int i = 0; i < found.touched; ++i) update_distances(leaves[touched[i]], s);
  }

 private:
  struct Counts {
    int touched, changed;
  };

  // Lists what the sample may change, and returns the numbers of leaves. What the loops need is
  // local here and below: the lists are integers too, so anything else in memory would be read
  // again after every write to them.
  [[gnu::always_inline]] Counts descend(const Point& s) {
    const Node* const root = tree_.root();
    const int top = tree_.shape.levels - 1, roots = static_cast<int>(tree_.roots());
    Counts found = {0, 0};
    for (int r = 0; r < roots; ++r) touch(root[r], r, s, top, found);
    for (int l = top - 1; l >= 0; --l) {
      const Node* const level = tree_.level[l];
      const int32_t* const nodes = touched_[l + 1];
      const int count = found.touched;
      changed_count_[l + 1] = found.changed;
      found = {0, 0};
      for (int i = 0; i < count; ++i) touch(level[nodes[i]], nodes[i], s, l, found);
    }
    return found;
  }

  // Lists children of a node of level `l`. A leaf is in one of the lists, a node may be in both.
  [[gnu::always_inline]] void touch(const Node& node, int32_t number, const Point& s, int l,
                                    Counts& found) {
    const Touched lanes = touched_children(node, s);
    const uint32_t touched = l == 0 ? lanes.some & ~lanes.farthest : lanes.some;
    found.touched += append(touched, number * kFan, touched_[l] + found.touched);
    found.changed += append(lanes.farthest, number * kFan, changed_[l] + found.changed);
  }

  void update_leaves(const Point& s, int count) {
    Leaf* const leaves = tree_.leaves;
    Node* const parents = tree_.level[0];
    const int32_t* const changed = changed_[0];
    for (int i = 0; i < count; ++i) {
      const int32_t leaf = changed[i];
      set_farthest(parents[leaf / kFan], leaf % kFan, update_leaf(leaves[leaf], s));
    }
  }

  // Brings the new farthest points of the leaves up.
  void ascend() {
    for (int l = 1; l < tree_.shape.levels; ++l) {
      for (int i = 0; i < changed_count_[l]; ++i) {
        const int32_t node = changed_[l][i];
        set_farthest(tree_.level[l][node / kFan], node % kFan,
                     farthest_of(tree_.level[l - 1][node]));
      }
    }
  }

  static size_t bytes(const Shape& s) {
    size_t sum = 0;
    for (int l = 0; l < s.levels; ++l) sum += 2 * Arena::bytes_for<int32_t>(s.children(l) + kFan);
    return sum;
  }

  Sample lowest_of_tied(uint64_t low, uint64_t high) const {
    Sample best;
    best.index = kNoIndex;
    for (int r = 0; r < tree_.roots(); ++r) {
      const Node& node = tree_.root()[r];
      const uint32_t bits = (r < 4 ? low >> 16 * r : high >> 16 * (r - 4)) & 0xffff;
      if (bits == 0) continue;
      const int lane = lowest_index(bits, node.index, node.index);
      if (node.index[lane] < best.index) best = sample_of(node, lane);
    }
    return best;
  }

  Tree& tree_;
  Arena arena_;
  // Of the children of nodes of that level, in tree order: those that the sample may change, and
  // those whose farthest point it changes.
  int32_t* touched_[kMaxLevels];
  int32_t* changed_[kMaxLevels];
  int changed_count_[kMaxLevels];  // above level 0
};

// A tree of two nodes, all of whose leaves one mask names. Most samples change no leaf but the one
// they come from, so the next sample is sought among the other leaves before that one is updated:
// the processor goes ahead with it.
class PairPicker {
 public:
  explicit PairPicker(Tree& tree) : nodes_(tree.root()), leaves_(tree.leaves) {
    for (float& bound : bounds_) bound = kInfinity;
    bounds_[2 * kFan] = -1;
    next_ = search(kNone);
  }

  Sample farthest() const { return next_; }

  [[gnu::always_inline]] void apply(const Sample& sample) {
    const Point s = sample.at;
    const int own = leaf_;
    const Sample other = search(own);
    const Touched a = touched_children(nodes_[0], s), b = touched_children(nodes_[1], s);
    const uint32_t some = a.some | b.some << kFan;
    const uint32_t changed = a.farthest | b.farthest << kFan;
    bool is_next = update(own, s) < other.distance;
    for (uint32_t bits = changed & ~(1u << own); bits; bits &= bits - 1) {
      update(__builtin_ctz(bits), s);
      is_next = false;
    }
    next_ = is_next ? other : search(kNone);
    for (uint32_t bits = some & ~changed; bits; bits &= bits - 1) {
      update_distances(leaves_[__builtin_ctz(bits)], s);
    }
  }

 private:
  static constexpr int kNone = -1;

  // Returns the distance of the leaf's farthest point.
  [[gnu::always_inline]] float update(int leaf, const Point& s) {
    const Farthest f = update_leaf(leaves_[leaf], s);
    set_farthest(nodes_[leaf / kFan], leaf % kFan, f);
    return f.distance;
  }

  // The farthest point outside of leaf `except`.
  [[gnu::always_inline]] Sample search(int except) {
    const float* bounds = bounds_ + 2 * kFan - except;
    const Lanes a = min(load(nodes_[0].farthest), load(bounds));
    const Lanes b = min(load(nodes_[1].farthest), load(bounds + kFan));
    const Lanes want = broadcast(largest(max(a, b)));
    leaf_ = lowest_index(equal(a, want) | equal(b, want) << kFan, nodes_[0].index, nodes_[1].index);
    return sample_of(nodes_[leaf_ / kFan], leaf_ % kFan);
  }

  Node* const nodes_;
  Leaf* const leaves_;
  float bounds_[4 * kFan + 1];  // infinite but for the middle, which leaves out one leaf
  int leaf_;                    // of the next sample
  Sample next_;
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
    update(broadcast_point(first));
  }

  Sample farthest() const {
    const Lanes want = broadcast(farthest_);
    int64_t i = 0;
    uint32_t bits;
    while ((bits = equal(load(distance_ + i), want)) == 0) i += 16;
    i += __builtin_ctz(bits);
    return {farthest_,
            static_cast<int32_t>(i),
            {broadcast(axis_[0][i]), broadcast(axis_[1][i]), broadcast(axis_[2][i])}};
  }

  void apply(const Sample& f) { update(f.at); }

 private:
  void update(const Point& s) {
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
