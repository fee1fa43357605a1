// Scratch memory of the tree kernel: leaves and nodes, and in their place first the spatial sort's.
#pragma once

#include "cuda/fps/tree/layout.cuh"
#include "cuda/fps/tree/spatial_sort.h"

namespace farpoint::cuda::tree {

// Offsets in bytes. At most 20 for a point in its leaf, 4 for its row in order, 4 for its key, and
// 5 for nodes that do not fit in shared memory.
struct Layout {
  size_t points, nearest, order, keys, bounds, counts, nodes[kMaxLevels - 1], end;
};

inline Layout layout_of(const FpsBatch& batch, const TreeShape& shape, int device) {
  size_t end = 0;
  const auto take = [&end](size_t bytes) {
    const size_t begin = end;
    end += (bytes + 15) / 16 * 16;
    return begin;
  };
  const int64_t places = first_leaf(batch.rows, batch.clouds) * kLeaf + kLeaf;
  const bool in_parts = !shape.sorts_in_block;
  Layout at = {};
  at.points = take(places * sizeof(PointRow));
  at.nearest = take(places * sizeof(float));
  at.order = take(batch.rows * sizeof(int));
  at.keys = take(in_parts ? batch.rows * sizeof(unsigned) : 0);
  at.bounds = take(in_parts ? sort_bounds_bytes(batch) : 0);
  at.counts = take(in_parts ? sort_counts_bytes(batch, device) : 0);
  const int64_t nodes = first_node(batch.rows, batch.clouds) + kGroup + 2;
  for (int l = 0; l < shape.levels - 1; ++l) {
    at.nodes[l] = take(shape.in_shared ? 0 : nodes * sizeof(Node));
  }
  at.end = end;
  return at;
}

inline Storage storage_in(char* memory, const Layout& at) {
  Storage storage = {reinterpret_cast<PointRow*>(memory + at.points),
                     reinterpret_cast<float*>(memory + at.nearest),
                     reinterpret_cast<int*>(memory + at.order),
                     {}};
  for (int l = 0; l < kMaxLevels - 1; ++l) {
    storage.nodes[l] = reinterpret_cast<Node*>(memory + at.nodes[l]);
  }
  return storage;
}

// The second keys and rows lie where leaves will: these are written after the last pass.
inline SortStorage sort_storage_in(char* memory, const Layout& at, int64_t rows) {
  unsigned* const second = reinterpret_cast<unsigned*>(memory + at.points);
  return {{reinterpret_cast<unsigned*>(memory + at.keys), second},
          {reinterpret_cast<int*>(memory + at.order), reinterpret_cast<int*>(second + rows)},
          reinterpret_cast<Bounds*>(memory + at.bounds),
          reinterpret_cast<int*>(memory + at.counts)};
}

}  // namespace farpoint::cuda::tree
