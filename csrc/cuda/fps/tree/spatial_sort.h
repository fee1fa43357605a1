// Spatial sort on the device: the rows of each cloud along a space-filling curve.
#pragma once

#include "cuda/fps/fps.h"

namespace farpoint::cuda::tree {

struct Bounds;

// Device memory, in rows of the batch but for the last two.
struct SortStorage {
  unsigned* keys[2];
  int* rows[2];  // rows[0] receives the order; keys[1] and rows[1] are only used by several blocks
  Bounds* bounds;  // (clouds), by several blocks
  int* counts;     // (clouds, parts, digits), by several blocks
};

// Blocks that share a cloud where one does not sort it alone.
int sort_parts(const FpsBatch& batch, int device);
size_t sort_bounds_bytes(const FpsBatch& batch);
size_t sort_counts_bytes(const FpsBatch& batch, int device);

// Rows that are not finite come last. In one block where `in_block`, which fps_sort_capacity()
// bounds.
int sort_in_space(const FpsBatch& batch, bool in_block, const SortStorage& storage, int device,
                  void* stream);

}  // namespace farpoint::cuda::tree
