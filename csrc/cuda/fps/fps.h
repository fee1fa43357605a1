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
  int32_t* indices;               // rows of xyz with offsets, rows of the cloud without
  float* distances;               // null: not wanted
  int64_t rows;                   // of xyz, over all clouds
  int clouds;
  int max_points;
  int max_samples;
};

// See kernels.h.
enum class FpsMethod { kAuto, kGrid, kBlock, kCluster, kLazy, kLazySorted };

// Everything fps() decides, from host numbers alone.
struct FpsPlan {
  FpsMethod method;
  size_t scratch_bytes;  // device memory that fps() wants, 16-byte aligned
  bool wants_order;      // fps() wants `order`: the rows of each cloud along a Morton curve
  int head_points;       // lazy: points of the head, at most kMaxHeadPoints; any number is exact
};
constexpr int kMaxHeadPoints = 1792;

// kAuto picks the kernel; any other method is taken where it can run and kGrid where it cannot.
FpsPlan fps_plan(const FpsBatch& batch, FpsMethod wanted, int device);
// Queues the kernels on `stream`. Never waits for the device, so a stream capture may record it.
int fps(const FpsBatch& batch, const FpsPlan& plan, void* scratch, const int64_t* order, int device,
        void* stream);

// For a plan that wants an order: sorting the keys (rows) orders the rows of each cloud.
size_t fps_morton_scratch(const FpsBatch& batch);
int fps_morton_keys(const FpsBatch& batch, int64_t* keys, void* scratch, int device, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
