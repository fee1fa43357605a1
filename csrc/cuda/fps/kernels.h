// Launchers of the farthest point sampling kernels, each in a file of its own.
#pragma once

#include "cuda/fps/fps.h"

namespace farpoint::cuda {

// Block: one block per cloud, the cloud in registers.
int fps_block_capacity(int device);  // most points of a cloud
int fps_block(const FpsBatch& batch, int device, void* stream);

// Grid: any size, one launch per sample.
size_t fps_grid_scratch(const FpsBatch& batch);
int fps_grid(const FpsBatch& batch, void* scratch, int device, void* stream);

// Tree: one block per cloud and a pruning tree over the points in spatial order.
int64_t fps_tree_capacity();
int fps_sort_capacity(int device);  // most points of a cloud that one block sorts
TreeShape fps_tree_shape(const FpsBatch& batch, int device, int warps);  // 0: any
size_t fps_tree_scratch(const FpsBatch& batch, const TreeShape& shape, int device);
int fps_tree(const FpsBatch& batch, const TreeShape& shape, void* scratch, int device,
             void* stream);

// Partitioned: several blocks per cloud, each with a tree over its own partition. The shape is the
// tree kernel's where a partition would be too large.
TreeShape fps_partitioned_shape(const FpsBatch& batch, int partitions, int device, int warps);

}  // namespace farpoint::cuda
