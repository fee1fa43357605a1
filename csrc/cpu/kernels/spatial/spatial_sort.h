// Spatial sort: writes the points of a cloud into leaves so that neighbors in space share a leaf.
//
// A counting sort over a coarse grid first; then each cell with too many points is sorted again
// over a grid of its own, fitted to its points, which follows the density of a scan wherever it
// goes.
#pragma once

#include "cpu/kernels/spatial/geometry.h"
#include "cpu/kernels/spatial/tree.h"

namespace farpoint::cpu::FARPOINT_SIMD {

struct alignas(16) Item {
  float x, y, z;
  int32_t index;
};

// Coordinates with z repeated: the bits of an index may be a subnormal float, slow to compute with.
inline Float4 coordinates(const Item& item) {
  Float4 v = load4(&item.x);
  v[3] = v[2];
  return v;
}

inline int floor_log2(int64_t v) { return v < 2 ? 0 : 63 - __builtin_clzll(v); }

// Runs of neighbouring cells holding at most `limit` points together, or one cell that holds more:
// visit(first point, number of points). start(c) is the first point of cell c.
template <class Start, class Visit>
void for_each_run(const Start& start, int first, int last, int64_t limit, const Visit& visit) {
  for (int c = first; c < last;) {
    const int64_t begin = start(c);
    int end = c + 1;
    while (end < last && start(end + 1) - begin <= limit) ++end;
    if (start(end) > begin) visit(begin, start(end) - begin);
    c = end;
  }
}

// Calls step(i, stream) for begin <= i < end, in streams that go on at once: neighbors share a cell
// as a rule, and its counter would be waited for.
constexpr int kStreams = 2;

template <class Step>
inline void in_streams(int64_t begin, int64_t end, const Step& step) {
  const int64_t each = (end - begin) / kStreams;
  for (int64_t i = begin; i < begin + each; ++i) {
    for (int s = 0; s < kStreams; ++s) step(i + s * each, s);
  }
  for (int64_t i = begin + kStreams * each; i < end; ++i) step(i, kStreams - 1);
}

class LeafWriter {
 public:
  LeafWriter(Leaf* leaves, int64_t position) : leaves_(leaves), position_(position) {}

  void write(const Item* items, int64_t n) {
    while (n > 0) {
      const int64_t slot = position_ % kLeaf, count = n < kLeaf - slot ? n : kLeaf - slot;
      copy(items, static_cast<int>(count), leaves_[position_ / kLeaf], static_cast<int>(slot));
      items += count, n -= count, position_ += count;
    }
  }

  // The whole leaves that the next n points will fill, which nothing uses before.
  void* unused() const { return leaves_ + (position_ + kLeaf - 1) / kLeaf; }
  int64_t unused_bytes(int64_t n) const {
    const int64_t first = (position_ + kLeaf - 1) / kLeaf, last = (position_ + n) / kLeaf;
    return (last - first) * static_cast<int64_t>(sizeof(Leaf));
  }

 private:
  static void copy(const Item* __restrict items, int count, Leaf& __restrict leaf, int slot) {
    for (int i = 0; i < count; ++i) {
      leaf.x[slot + i] = items[i].x;
      leaf.y[slot + i] = items[i].y;
      leaf.z[slot + i] = items[i].z;
      leaf.index[slot + i] = items[i].index;
    }
  }

  Leaf* leaves_;
  int64_t position_;
};

// Sorts the points of one cell: through a scratch that stays in cache, or where there are too many
// for it through the leaves they will end in.
class CellSorter {
 public:
  static constexpr int64_t kScratch = 8192;

  // Cells of at most `enough` points are written as they are, and all once it is to stop: each cell
  // of points that lie at many scales has nearly all of them again.
  CellSorter(LeafWriter writer, int64_t enough, Item* scratch, uint16_t* codes, Stop stop)
      : writer_(writer), enough_(enough), scratch_(scratch), codes_(codes), stop_(stop) {}

  void sort(Item* items, int64_t n) {
    if (n <= kScratch) return sort_between(items, n, scratch_);
    const Bounds bounds = bounds_of_items(items, n);
    if (is_point(bounds) || stop_.requested()) return writer_.write(items, n);
    uint32_t starts[(1 << kMaxBits) + 1];
    const int wanted = floor_log2(16 * n / enough_);
    grid_.fit(bounds, wanted < kMaxBits ? wanted : kMaxBits);
    const int cells = grid_.cells();
    if (!scatter_through_leaves(items, n, starts, cells)) {
      const int64_t left = split(items, n, bounds);
      sort(items, left);
      return sort(items + left, n - left);
    }
    const auto start = [&](int cell) { return static_cast<int64_t>(starts[cell]); };
    for_each_run(start, 0, cells, enough_,
                 [&](int64_t begin, int64_t count) { sort(items + begin, count); });
  }

 private:
  static constexpr int kCellBits = 10;
  static constexpr int64_t kLong = 1024;  // some ten microseconds

  // `spare` has room for the n points, which may end in either place.
  void sort_between(Item* items, int64_t n, Item* spare) {
    if (n <= enough_ || (n > kLong && stop_.requested())) return writer_.write(items, n);
    const Bounds bounds = bounds_of_items(items, n);
    if (is_point(bounds)) return writer_.write(items, n);
    const int wanted = floor_log2(16 * n / enough_);
    grid_.fit(bounds, wanted < kCellBits ? wanted : kCellBits);
    uint32_t starts[(1 << kCellBits) + 1];
    const int cells = grid_.cells();
    if (!scatter(items, n, spare, codes_, starts, cells)) {
      const int64_t left = split(items, n, bounds);
      sort_between(items, left, spare);
      return sort_between(items + left, n - left, spare + left);
    }
    const auto start = [&](int cell) { return static_cast<int64_t>(starts[cell]); };
    for_each_run(start, 0, cells, enough_, [&](int64_t begin, int64_t count) {
      sort_between(spare + begin, count, items + begin);
    });
  }

  bool scatter_through_leaves(Item* items, int64_t n, uint32_t* starts, int cells) {
    static_assert(sizeof(Leaf) >= kLeaf * (sizeof(Item) + sizeof(uint16_t)));
    const int64_t needed = n * static_cast<int64_t>(sizeof(Item) + sizeof(uint16_t));
    if (writer_.unused_bytes(n) < needed) return false;
    Item* moved = static_cast<Item*>(writer_.unused());
    if (!scatter(items, n, moved, reinterpret_cast<uint16_t*>(moved + n), starts, cells)) {
      return false;
    }
    std::memcpy(items, moved, n * sizeof(Item));
    return true;
  }

  // False, with nothing moved, where one cell holds every point. Its counters must not be on the
  // stack while sort_between() calls itself.
  [[gnu::noinline]] bool scatter(const Item* items, int64_t n, Item* out, uint16_t* codes,
                                 uint32_t* starts, int cells) {
    uint32_t next[kStreams][1 << kMaxBits];
    for (auto& stream : next) std::memset(stream, 0, sizeof(uint32_t) * cells);
    grid_.find_cells<4>(&items[0].x, n, codes);
    in_streams(0, n, [&](int64_t i, int s) { ++next[s][codes[i]]; });
    uint32_t sum = 0;
    for (int c = 0; c < cells; ++c) {
      starts[c] = sum;
      for (auto& stream : next) {
        const uint32_t count = stream[c];
        stream[c] = sum;
        sum += count;
      }
      if (sum - starts[c] == n) return false;
    }
    starts[cells] = sum;
    in_streams(0, n, [&](int64_t i, int s) { out[next[s][codes[i]]++] = items[i]; });
    return true;
  }

  static Bounds bounds_of_items(const Item* items, int64_t n) {
    Bounds a = {coordinates(items[0]), coordinates(items[0])}, b = a;
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) {  // two chains: a minimum takes four cycles to arrive
      const Float4 p = coordinates(items[i]), q = coordinates(items[i + 1]);
      a = {min4(a.low, p), max4(a.high, p)};
      b = {min4(b.low, q), max4(b.high, q)};
    }
    if (i < n) a = {min4(a.low, coordinates(items[i])), max4(a.high, coordinates(items[i]))};
    return {min4(a.low, b.low), max4(a.high, b.high)};
  }

  static bool is_point(const Bounds& b) {
    return b.low[0] == b.high[0] && b.low[1] == b.high[1] && b.low[2] == b.high[2];
  }

  // Moves the points below the middle of the longest side to the front; both parts have some.
  static int64_t split(Item* items, int64_t n, const Bounds& b) {
    const Float4 side = b.high - b.low;
    int axis = side[1] > side[0] ? 1 : 0;
    if (side[2] > side[axis]) axis = 2;
    // Halved before they are added, since the sides of a cloud may overflow.
    const float middle = b.low[axis] * 0.5f + b.high[axis] * 0.5f;
    const float pivot = middle > b.low[axis] && middle < b.high[axis] ? middle : b.high[axis];
    int64_t left = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Item item = items[i];
      const bool below = coordinates(item)[axis] < pivot;
      items[i] = items[left];
      items[left] = item;
      left += below;
    }
    return left;
  }

  LeafWriter writer_;
  int64_t enough_;
  Item* scratch_;
  uint16_t* codes_;
  Stop stop_;
  Grid grid_;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
