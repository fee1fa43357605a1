// Selects and launches the farthest point sampling kernel for a batch, from host numbers alone.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/fps/fps.h"

namespace farpoint::cuda {

namespace {

// Measured on an H100: docs/performance_cuda.md.

// Points up to which whole steps take no longer than the tree with its sort, however many clouds
// share a processor, and of all clouds that share one.
constexpr int kSharedPoints = 1024, kPointsOfProcessor = 4096;
// Samples that do not pay for a sort of what the block kernel can take.
constexpr int kUnsortedSamples = 256;
// A launch per sample is cheaper than a sort where there are few samples of a few clouds.
constexpr int kFewSamples = 32, kFewSamplesOfMany = 96, kManyPoints = 65'536;
// Partitions pay with many of them or many points, and with far more samples than launches.
constexpr int kMinPartitions = 8, kPointsByPartitions = 262'144;
constexpr int64_t kPointsBySamples = int64_t{1} << 23;

bool fits_block(const FpsBatch& batch, int device) {
  return batch.max_points <= fps_block_capacity(device);
}

bool prefers_block(const FpsBatch& batch, int processors) {
  const int64_t points = batch.max_points;
  return batch.max_samples <= kUnsortedSamples || points <= kSharedPoints ||
         points * ceil_div(batch.clouds, processors) <= kPointsOfProcessor;
}

bool prefers_grid(const FpsBatch& batch, int processors) {
  const double occupancy = 1.0 + 8.0 * batch.clouds / processors;
  const int few = batch.max_points < kManyPoints ? kFewSamples : kFewSamplesOfMany;
  return batch.max_samples * occupancy < few;
}

// Blocks of each cloud on so many processors, a power of two.
int partitions_on(int processors, int clouds) {
  constexpr int kMaxPartitions = 32;
  int partitions = 1;
  while (2 * partitions <= std::min(kMaxPartitions, processors / std::max(1, clouds))) {
    partitions *= 2;
  }
  return partitions;
}

bool prefers_partitions(const FpsBatch& batch, int processors) {
  const int64_t points = batch.max_points, partitions = partitions_on(processors, batch.clouds);
  return partitions >= kMinPartitions && points * partitions >= kPointsByPartitions &&
         points * batch.max_samples >= kPointsBySamples;
}

FpsMethod best_method(const FpsBatch& batch, int device) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  if (prefers_block(batch, processors) && fits_block(batch, device)) return FpsMethod::kBlock;
  if (batch.max_points > fps_tree_capacity()) return FpsMethod::kGrid;
  if (prefers_grid(batch, processors)) return FpsMethod::kGrid;
  return prefers_partitions(batch, processors) ? FpsMethod::kPartitioned : FpsMethod::kTree;
}

// One cloud after another where all processors together hold no more.
TreeShape shape_of(const FpsBatch& batch, FpsMethod wanted, FpsMethod method, int device,
                   int warps) {
  if (method == FpsMethod::kTree) return fps_tree_shape(batch, device, warps);
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int clouds = wanted == FpsMethod::kAuto ? batch.clouds : 1;
  const int partitions = partitions_on(processors, clouds);
  return fps_partitioned_shape(batch, partitions, device, warps);
}

}  // namespace

FpsPlan fps_plan(const FpsBatch& batch, FpsMethod wanted, int device, int warps) {
  const FpsMethod method = wanted == FpsMethod::kAuto ? best_method(batch, device) : wanted;
  if (method == FpsMethod::kBlock && fits_block(batch, device)) return {method, 0, {}};
  const bool sorts = method == FpsMethod::kTree || method == FpsMethod::kPartitioned;
  if (sorts && batch.max_points <= fps_tree_capacity()) {
    return fps_plan_tree(batch, shape_of(batch, wanted, method, device, warps), device);
  }
  return {FpsMethod::kGrid, fps_grid_scratch(batch), {}};
}

FpsPlan fps_plan_tree(const FpsBatch& batch, const TreeShape& shape, int device) {
  const FpsMethod method = shape.partitions > 1 ? FpsMethod::kPartitioned : FpsMethod::kTree;
  return {method, fps_tree_scratch(batch, shape, device), shape};
}

int fps(const FpsBatch& batch, const FpsPlan& plan, void* scratch, int device, void* stream) {
  if (batch.clouds == 0 || batch.max_samples == 0) return cudaSuccess;
  if (plan.method == FpsMethod::kBlock) return fps_block(batch, device, stream);
  if (plan.method != FpsMethod::kGrid) return fps_tree(batch, plan.tree, scratch, device, stream);
  return fps_grid(batch, scratch, device, stream);
}

}  // namespace farpoint::cuda
