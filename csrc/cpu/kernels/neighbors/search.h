// k nearest neighbors and ball query with the instruction set FARPOINT_SIMD: see spatial/build.h.
#pragma once

#include "cpu/kernels/neighbors/nearest_group.h"
#include "cpu/kernels/spatial/build.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// Points in the order of their rows, for clouds too small to sort and for searches too few.
class Scan {
 public:
  Scan(const float* xyz, int64_t n)
      : count_(ceil_div(n, kLeaf)),
        arena_(Arena::bytes_for<Leaf>(count_)),
        leaves_(arena_.take<Leaf>(count_)) {
    for (int64_t i = 0; i < count_ * kLeaf; ++i) {
      const float* p = xyz + 3 * (i < n ? i : n - 1);
      Leaf& leaf = leaves_[i / kLeaf];
      const int64_t k = i % kLeaf;
      leaf.x[k] = p[0], leaf.y[k] = p[1], leaf.z[k] = p[2];
      leaf.index[k] = i < n ? static_cast<int32_t>(i) : kNoIndex;
    }
  }

  template <class Collector>
  void search(const Point&, Collector& collector) const {
    for (int64_t l = 0; l < count_; ++l) collector.visit(leaves_[l]);
  }
  // Rows come in order, so the first k are the lowest.
  void search(const Point&, Within& collector) const {
    for (int64_t l = 0; l < count_ && !collector.full(); ++l) collector.visit(leaves_[l]);
  }

 private:
  const int64_t count_;
  Arena arena_;
  Leaf* const leaves_;
};

// Has at least one of the two, and owns them.
struct Index {
  const int64_t n;
  Scan* scan = nullptr;
  Tree* tree = nullptr;

  explicit Index(int64_t points) : n(points) {}
  ~Index() {
    delete scan;
    delete tree;
  }
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  template <class Collector>
  void search(const Point& q, Collector& collector) const {
    if (tree) return Traversal<Collector>{*tree, q, collector}.run();
    scan->search(q, collector);
  }
};

// Nanoseconds a point and a query, measured on one core with AVX-512; only their ratios matter.
inline bool tree_searches_faster(int64_t n, int64_t queries) {
  const double points = static_cast<double>(n), searches = static_cast<double>(queries);
  return 0.13 * points * searches > 10.0 * points + 100.0 * searches;
}

inline void fill_index(Index& index, const float* xyz, int64_t queries, bool balls, int threads) {
  const bool sorted = tree_searches_faster(index.n, queries);
  if (!sorted || balls) index.scan = new Scan(xyz, index.n);
  if (!sorted) return;
  Team team(threads);
  const TreePlan plan = {xyz, index.n, kUnsorted, xyz, team, nullptr};
  index.tree = new Tree(plan);
  Builder(plan, *index.tree).run();
  build_upper_levels(*index.tree);
}

inline void* build(const float* xyz, int64_t n, int64_t queries, bool balls, int threads) {
  Index* index = new Index(n);
  try {
    fill_index(*index, xyz, queries, balls, threads);
  } catch (...) {
    delete index;
    throw;
  }
  return index;
}

inline void destroy(void* index) { delete static_cast<Index*>(index); }

inline void take(const uint64_t* keys, int64_t k, int32_t* rows, float* squared) {
  for (int64_t i = 0; i < k; ++i) {
    rows[i] = row_in(keys[i]);
    squared[i] = squared_of(keys[i]);
  }
}

constexpr int kMostSorted = 64;

template <int kMost = 8>
void nearest_few(const Index& cloud, const Point& q, int64_t k, float limit, uint64_t* keys) {
  if constexpr (kMost < kMostSorted) {
    if (k > kMost) return nearest_few<kMost + 8>(cloud, q, k, limit, keys);
  }
  NearestFew<kMost> few(q, k, limit);
  cloud.search(q, few);
  few.read(keys, k);
}

inline void nearest(const void* index, const float* query, int64_t k, float limit, uint64_t* work,
                    int32_t* rows, float* squared) {
  // Below this a heap moves fewer keys.
  constexpr int64_t kWorthSorting = 8;
  const auto& cloud = *static_cast<const Index*>(index);
  const Point q = broadcast_point(query);
  if (k == 1) {
    NearestOne one(q, limit);
    cloud.search(q, one);
    work[0] = one.best();
  } else if (k >= kWorthSorting && k <= kMostSorted) {
    nearest_few(cloud, q, k, limit, work);
  } else {
    NearestSome some(q, k, limit, work);
    cloud.search(q, some);
    some.sort();
  }
  take(work, k, rows, squared);
}

inline bool nearest_to_many(const void* index, const float* queries, int64_t count, int32_t* rows,
                            float* squared) {
  // Sorted piece by piece, in memory that stays in cache.
  constexpr int64_t kWorthSorting = 1024, kPiece = 1 << 16;
  const Tree* const tree = static_cast<const Index*>(index)->tree;
  // Two operations of 8 lanes still pay, four do not.
  if (!tree || count < kWorthSorting || kRegisterBytes < 32) return false;
  Team team(1);
  const Leaf* near = tree->leaves;
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t n = count - first < kPiece ? count - first : kPiece;
    const float* const xyz = queries + 3 * first;
    const TreePlan plan = {xyz, n, kUnsorted, xyz, team, nullptr};
    Tree sorted(plan);
    if (Builder(plan, sorted).run() != Built::kDone) return false;
    for (int64_t i = 0; i < n; i += NearestGroup::kQueries) {
      NearestGroup group(*tree, sorted.leaves[i / kLeaf], static_cast<int>(i % kLeaf), *near);
      near = &group.run(rows + first, squared + first);
    }
  }
  return true;
}

// A ball that holds many more points than are wanted is left to the scan: the more it holds, the
// sooner the scan has met enough of them.
inline int64_t within(const void* index, const float* query, float inner, float reach, int64_t k,
                      int32_t* rows) {
  const auto& cloud = *static_cast<const Index*>(index);
  const Point q = broadcast_point(query);
  if (cloud.tree) {
    const double pairs = static_cast<double>(cloud.n) * static_cast<double>(k);
    Within few(q, inner, reach, k, rows, k + static_cast<int64_t>(__builtin_sqrt(pairs) / 4));
    cloud.search(q, few);
    if (!few.gave_up()) return few.finish();
  }
  Within any(q, inner, reach, k, rows, INT64_MAX);
  cloud.scan->search(q, any);
  return any.finish();
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
