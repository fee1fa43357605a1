// Builds the tree of a cloud on one or several threads.
//
// This header and those it includes are compiled once for each instruction set, in a namespace of
// its name: the including file defines FARPOINT_SIMD, the name, and FARPOINT_LANES, the simd_*.h
// that goes with it, after including every standard header in use. Nothing here instantiates a
// template of the standard library: the linker might keep a copy that older processors cannot run.
#pragma once

#include "cpu/kernels/spatial/spatial_sort.h"
#include "cpu/kernels/spatial/tree.h"

namespace farpoint::cpu::FARPOINT_SIMD {

enum class Built { kDone, kCancelled, kNotFinite };

class Builder {
 public:
  Builder(const TreePlan& plan, Tree& tree)
      : plan_(plan),
        tree_(tree),
        threads_(plan.team.threads()),
        scratch_size_(plan.n < CellSorter::kScratch ? plan.n : CellSorter::kScratch),
        arena_(bytes()),
        items_(arena_.take<Item>(plan.n)),
        scratch_(arena_.take<Item>(threads_ * scratch_size_)),
        scratch_codes_(arena_.take<uint16_t>(threads_ * scratch_size_)),
        counts_(arena_.take<uint32_t>(counters())),
        codes_(reinterpret_cast<uint16_t*>(tree.leaves)) {}

  // Fills the leaves and level 0, completely only where this is kDone. Levels above are for
  // build_upper_levels().
  Built run() {
    // The other threads are only starting: this is done by the time they are there.
    Bounds bounds;
    if (!finite_bounds(plan_.xyz, plan_.n, bounds)) return Built::kNotFinite;
    const int wanted = floor_log2(plan_.n / 16);
    grid_.fit(bounds, wanted < 1 ? 1 : wanted < kMaxBits ? wanted : kMaxBits);
    plan_.team.run<&Builder::count_cells>(*this);
    place_cells();
    plan_.team.run<&Builder::move_items>(*this);
    plan_.team.run<&Builder::sort_cells>(*this);
    if (Stop(plan_.cancelled, plan_.deadline).requested()) return Built::kCancelled;
    pad_last_leaf();
    plan_.team.run<&Builder::set_leaves>(*this);
    return stopped(plan_.cancelled) ? Built::kCancelled : Built::kDone;
  }

 private:
  size_t counters() const { return static_cast<size_t>(kStreams * threads_ + 1) << kMaxBits; }
  size_t bytes() const {
    return Arena::bytes_for<Item>(plan_.n) + Arena::bytes_for<Item>(threads_ * scratch_size_) +
           Arena::bytes_for<uint16_t>(threads_ * scratch_size_) +
           Arena::bytes_for<uint32_t>(counters());
  }

  int64_t share(int64_t total, int thread) const { return total * thread / threads_; }

  // Calls step(begin, end) for pieces of the thread's share of `total`. What a cancelled step
  // leaves unfinished is never read: every later step sees the flag too, since the threads meet
  // between them.
  template <class Step>
  void each_piece(int64_t total, int thread, Step step) {
    constexpr int64_t kPiece = 8192;  // some ten microseconds
    const int64_t last = share(total, thread + 1);
    for (int64_t i = share(total, thread); i < last && !stopped(plan_.cancelled); i += kPiece) {
      step(i, i + kPiece < last ? i + kPiece : last);
    }
  }
  uint32_t* counts(int stream) { return counts_ + (static_cast<size_t>(stream) << kMaxBits); }
  // Where each cell begins, behind the counters of the threads.
  uint32_t* starts() { return counts(kStreams * threads_); }
  int64_t start_of(int cell) { return cell < grid_.cells() ? starts()[cell] : plan_.n; }

  Float4 point(int64_t i) const {
    const float* p = plan_.xyz + 3 * i;
    // The last row has no fourth value behind it.
    return i + 1 < plan_.n ? load4(p) : Float4{p[0], p[1], p[2], 0};
  }

  void count_cells(int thread) {
    uint32_t* const count = counts(kStreams * thread);
    std::memset(count, 0, kStreams * sizeof(uint32_t) << kMaxBits);
    each_piece(plan_.n, thread, [&](int64_t begin, int64_t end) {
      const uint16_t* const codes = codes_;
      grid_.find_cells<3>(plan_.xyz + 3 * begin, end - begin, codes_ + begin);
      in_streams(begin, end, [&](int64_t i, int s) { ++count[s << kMaxBits | codes[i]]; });
    });
  }

  // Turns counts into the place of each thread's first item of each cell.
  void place_cells() {
    uint32_t sum = 0;
    for (int c = 0; c < grid_.cells(); ++c) {
      starts()[c] = sum;
      for (int t = 0; t < kStreams * threads_; ++t) {
        const uint32_t count = counts(t)[c];
        counts(t)[c] = sum;
        sum += count;
      }
    }
  }

  void move_items(int thread) {
    uint32_t* const next = counts(kStreams * thread);
    each_piece(plan_.n, thread, [&](int64_t begin, int64_t end) {
      Item* const items = items_;
      const uint16_t* const codes = codes_;
      in_streams(begin, end, [&](int64_t i, int s) {
        Int4 item = reinterpret_cast<Int4>(point(i));
        item[3] = static_cast<int32_t>(i);
        std::memcpy(&items[next[s << kMaxBits | codes[i]]++], &item, sizeof(item));
      });
    });
  }

  // The first cell that starts at or behind a point.
  int first_cell(int64_t point) {
    return static_cast<int>(count_while(
        grid_.cells(), [&](int64_t cell) { return start_of(static_cast<int>(cell)) < point; }));
  }

  // Crowded cells take longer than others, so threads take small parts, one after the other.
  void sort_cells(int thread) {
    const int64_t parts = threads_ == 1 ? 1 : kParts * threads_;
    const auto start = [this](int cell) { return start_of(cell); };
    for (int64_t part; (part = next_part_.fetch_add(1, std::memory_order_relaxed)) < parts;) {
      const int first = first_cell(plan_.n * part / parts);
      const int last = first_cell(plan_.n * (part + 1) / parts);
      CellSorter sorter({tree_.leaves, start_of(first)}, plan_.enough,
                        scratch_ + thread * scratch_size_, scratch_codes_ + thread * scratch_size_,
                        Stop(plan_.cancelled, plan_.deadline));
      for_each_run(start, first, last, plan_.enough, [&](int64_t begin, int64_t count) {
        if (!stopped(plan_.cancelled)) sorter.sort(items_ + begin, count);
      });
    }
  }

  void pad_last_leaf() {
    const int64_t last = plan_.n - 1;
    Leaf& leaf = tree_.leaves[last / kLeaf];
    const int k = static_cast<int>(last % kLeaf);
    for (int pad = k + 1; pad < kLeaf; ++pad) {
      leaf.x[pad] = leaf.x[k], leaf.y[pad] = leaf.y[k], leaf.z[pad] = leaf.z[k];
      leaf.index[pad] = kNoIndex;
    }
  }

  void set_leaves(int thread) {
    each_piece(tree_.shape.nodes[0] * kFan, thread, [&](int64_t begin, int64_t end) {
      for (int64_t l = begin; l < end; ++l) set_leaf_of(tree_.level[0][l / kFan], l);
    });
  }

  void set_leaf_of(Node& node, int64_t l) {
    const int lane = static_cast<int>(l % kFan);
    if (l >= tree_.shape.leaves) return set_empty(node, lane);
    Leaf& leaf = tree_.leaves[l];
    const int64_t points = plan_.n - l * kLeaf;
    for (int k = 0; k < kLeaf; ++k) leaf.distance[k] = k < points ? kInfinity : -1.f;
    set_leaf(node, lane, leaf, plan_.first);
  }

  static constexpr int64_t kParts = 8;

  const TreePlan& plan_;
  Tree& tree_;
  const int threads_;
  const int64_t scratch_size_;
  Arena arena_;
  Item* const items_;
  Item* const scratch_;
  uint16_t* const scratch_codes_;
  uint32_t* const counts_;
  uint16_t* const codes_;  // in the leaves, until points move there
  std::atomic<int64_t> next_part_{0};
  Grid grid_;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
