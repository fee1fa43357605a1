// Spatial sort on the device: the rows of each cloud along a space-filling curve, and leaves of 32.
#pragma once

#include <cstdint>

#include "cuda/fps/fps.h"

namespace farpoint::cuda::tree {

struct Bounds;
struct Storage;

using Item = unsigned long long;  // a code above its row

// Device memory of a sort by several blocks a cloud, in rows of the batch but for the last two. It
// is free again once the rows are in order.
struct SortStorage {
  int* order;  // the result; codes before
  Item* items[2];
  Bounds* bounds;  // (clouds)
  int* counts;     // (clouds, pieces, digits)

  __host__ __device__ unsigned* codes() const { return reinterpret_cast<unsigned*>(order); }
};

// Blocks that share a cloud where one does not sort it alone.
int sort_pieces(const FpsBatch& batch, int device);
size_t sort_bounds_bytes(const FpsBatch& batch);
size_t sort_counts_bytes(const FpsBatch& batch, int device);
int sort_by_pieces(const FpsBatch& batch, const SortStorage& storage, int device, void* stream);

// Leaves of the points in that order, of clouds with samples. In one block a cloud up to
// fps_sort_capacity() points, in fewer cells. The items may lie where the leaves will.
int make_leaves_in_block(const FpsBatch& batch, const Storage& storage, void* stream);
int make_leaves_by_pieces(const FpsBatch& batch, const SortStorage& sort, const Storage& storage,
                          int device, void* stream);

}  // namespace farpoint::cuda::tree
