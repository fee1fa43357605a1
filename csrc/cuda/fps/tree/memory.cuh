// Scratch memory of the tree kernel: leaves and nodes, and in the place of leaves first the sort's.
#pragma once

#include "cuda/fps/sort/spatial_sort.h"
#include "cuda/fps/tree/partitions.cuh"

namespace farpoint::cuda::tree {

// Offsets in bytes. At most 21 for a point in its leaf, 4 for its row in order, and 5 for nodes
// that do not fit in shared memory, or 8 for what the partitions of a cloud share.
struct Layout {
  size_t leaves, rows, boxes, order, bounds, counts, nodes[kMaxLevels - 1];
  size_t group_boxes, zeros, logs, words, end;
};

inline Layout layout_of(const FpsBatch& batch, const TreeShape& shape, int device) {
  size_t end = 0;
  const auto take = [&end](size_t bytes) {
    const size_t begin = end;
    end += (bytes + 15) / 16 * 16;
    return begin;
  };
  const int64_t places = first_leaf(batch.rows, batch.clouds) * kLeaf + kLeaf;
  const bool by_pieces = !shape.sorts_in_block;
  Layout at = {};
  at.leaves = take(places / kLeaf * sizeof(Leaf));
  at.rows = take(places * sizeof(int));
  at.boxes = take(places / kLeaf * sizeof(Box));
  at.order = take(by_pieces ? batch.rows * sizeof(int) : 0);
  at.bounds = take(by_pieces ? sort_bounds_bytes(batch) : 0);
  at.counts = take(by_pieces ? sort_counts_bytes(batch, device) : 0);
  const int64_t nodes = first_node(batch.rows, batch.clouds) + kGroup + 2;
  for (int l = 0; l < shape.levels - 1; ++l) {
    at.nodes[l] = take(shape.in_shared ? 0 : nodes * sizeof(Node));
  }
  const bool shares = shape.partitions > 1;
  const size_t groups = size_t{1} << group_shift(batch.max_points, shape.partitions);
  const size_t partitions = shares ? static_cast<size_t>(batch.clouds) * shape.partitions : 0;
  at.group_boxes = take(partitions * groups * sizeof(Box));
  at.zeros = take(partitions / shape.partitions * sizeof(unsigned));
  at.logs = take(shares ? batch.rows * sizeof(Key) : 0);
  at.words = take(partitions * sizeof(Words));
  at.end = end;
  return at;
}

inline Storage storage_in(char* memory, const Layout& at) {
  Storage storage = {reinterpret_cast<Leaf*>(memory + at.leaves),
                     reinterpret_cast<int*>(memory + at.rows),
                     reinterpret_cast<Box*>(memory + at.boxes),
                     {}};
  for (int l = 0; l < kMaxLevels - 1; ++l) {
    storage.nodes[l] = reinterpret_cast<Node*>(memory + at.nodes[l]);
  }
  return storage;
}

inline Partitions partitions_in(char* memory, const Layout& at, const FpsBatch& batch,
                                int partitions) {
  return {partitions,
          group_shift(batch.max_points, partitions),
          reinterpret_cast<Box*>(memory + at.group_boxes),
          reinterpret_cast<unsigned*>(memory + at.zeros),
          reinterpret_cast<Key*>(memory + at.logs),
          reinterpret_cast<Words*>(memory + at.words)};
}

// Items lie where leaves will: these are written after the last pass.
inline SortStorage sort_storage_in(char* memory, const Layout& at, int64_t rows) {
  Item* const items = reinterpret_cast<Item*>(memory + at.leaves);
  return {reinterpret_cast<int*>(memory + at.order),
          {items, items + rows},
          reinterpret_cast<Bounds*>(memory + at.bounds),
          reinterpret_cast<int*>(memory + at.counts)};
}

}  // namespace farpoint::cuda::tree
