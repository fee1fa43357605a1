// Farthest point sampling on a CUDA device, without torch: pointers in, a cudaError_t out as int.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cuda {

// A batch of clouds. Rows of cloud b start at offsets[b], or at b * max_points without offsets; its
// samples start at sample_offsets[b], or at b * max_samples. Device pointers; null where optional.
struct FpsBatch {
  const float* xyz;               // rows of 3
  const int64_t* offsets;         // (clouds + 1) or null
  const int64_t* lengths;         // (clouds) or null: used without offsets
  const int64_t* sample_offsets;  // (clouds + 1) or null
  const int64_t* start;           // (clouds), counted from the cloud's own first row, or null: 0
  // (clouds) or null: a cloud ends at the first sample from which no point is farther, and the
  // places left get index -1 and distance 0. A negative radius ends none.
  const float* radius;
  int32_t* indices;  // rows of xyz with offsets, rows of the cloud without
  float* distances;  // null: not wanted
  int64_t rows;      // of xyz, over all clouds
  int64_t samples;   // places in indices, over all clouds
  int clouds;
  int max_points;
  int max_samples;
};

// The kernels below.
enum class FpsMethod { kAuto, kGrid, kBlock, kTree, kPartitioned };

// How the tree kernel lays out a cloud; whatever holds the largest cloud of a batch is exact.
struct TreeShape {
  int warps;            // of a block, which samples one cloud: 1, 2, 4, 8 or 16
  int levels;           // 1 up to 2048 points a warp, 2 up to 32 768, then 32 times each, up to 4
  bool in_shared;       // of two levels: leaves' boxes in shared memory, not in global memory
  bool sorts_in_block;  // the spatial sort in the shared memory of one block a cloud
  int partitions = 1;   // blocks of a cloud, each with a tree of its own: a power of two up to 32
};

// Everything fps() decides, from host numbers alone.
struct FpsPlan {
  FpsMethod method;
  size_t scratch_bytes;  // device memory that fps() wants, 16-byte aligned
  TreeShape tree;
};

// kAuto picks the kernel; any other method is taken where it can run and kGrid where it cannot.
// `warps` is that of the tree's shape, or 0 for the rule's choice.
FpsPlan fps_plan(const FpsBatch& batch, FpsMethod wanted, int device, int warps = 0);
// The tree kernel in a given shape, for tests.
FpsPlan fps_plan_tree(const FpsBatch& batch, const TreeShape& shape, int device);
// Queues the kernels on `stream`. Never waits for the device, so a stream capture may record it.
int fps(const FpsBatch& batch, const FpsPlan& plan, void* scratch, int device, void* stream);

constexpr int kMostDims = 1024;

// Of any number of dimensions; values, radii and distances are float64 if `wide`, else float32.
struct BruteFpsBatch {
  FpsBatch layout;     // without xyz, radius and distances
  const void* values;  // coordinate d of row r at d * rows + r
  const void* radius;  // as in FpsBatch
  void* distances;     // null: not wanted
  int dims;
  bool wide;
};

// `nearest` has room for a value of each row. Queues a kernel on `stream`.
int fps_brute_force(const BruteFpsBatch& batch, void* nearest, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop

namespace farpoint::cuda {

// Launchers of the kernels, each in a file of its own.

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
