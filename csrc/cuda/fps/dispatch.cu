// Selects and launches the farthest point sampling kernel for a batch, from host numbers alone.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"

namespace farpoint::cuda {

namespace {

// Points of a cloud that has a processor to itself, of one that does not, and of all clouds that
// share a processor, up to which whole steps take no longer than the tree's; and of a cloud in any
// crowd.
constexpr int kAlonePoints = 4096, kWholePoints = 2048, kProcessorPoints = 8192, kFewPoints = 1024;
// Samples that do not pay for a sort of what the block kernel can take.
constexpr int kUnsortedSamples = 128;
// A launch per sample is cheaper than a sort where there are few samples of a few large clouds.
constexpr int kFewSamples = 64;

bool fits_block(const FpsBatch& batch, int device) {
  return batch.max_points <= fps_block_capacity(device);
}

bool prefers_block(const FpsBatch& batch, int processors) {
  if (batch.max_samples < kUnsortedSamples) return true;
  const int crowd = std::max(1, (batch.clouds + processors - 1) / processors);
  if (crowd == 1) return batch.max_points <= kAlonePoints;
  return batch.max_points <= std::clamp(kProcessorPoints / crowd, kFewPoints, kWholePoints);
}

FpsMethod best_method(const FpsBatch& batch, int device) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  if (prefers_block(batch, processors) && fits_block(batch, device)) return FpsMethod::kBlock;
  if (batch.max_points > fps_tree_capacity()) return FpsMethod::kGrid;
  const double crowd = 1.0 + 8.0 * batch.clouds / processors;
  return batch.max_samples * crowd < kFewSamples ? FpsMethod::kGrid : FpsMethod::kTree;
}

}  // namespace

FpsPlan fps_plan(const FpsBatch& batch, FpsMethod wanted, int device, int warps) {
  const FpsMethod method = wanted == FpsMethod::kAuto ? best_method(batch, device) : wanted;
  if (method == FpsMethod::kBlock && fits_block(batch, device)) return {method, 0, {}};
  if (method == FpsMethod::kTree && batch.max_points <= fps_tree_capacity()) {
    return fps_plan_tree(batch, fps_tree_shape(batch, device, warps), device);
  }
  return {FpsMethod::kGrid, fps_grid_scratch(batch), {}};
}

FpsPlan fps_plan_tree(const FpsBatch& batch, const TreeShape& shape, int device) {
  return {FpsMethod::kTree, fps_tree_scratch(batch, shape, device), shape};
}

int fps(const FpsBatch& batch, const FpsPlan& plan, void* scratch, int device, void* stream) {
  if (batch.clouds == 0 || batch.max_samples == 0) return cudaSuccess;
  if (plan.method == FpsMethod::kBlock) return fps_block(batch, stream);
  if (plan.method == FpsMethod::kTree) return fps_tree(batch, plan.tree, scratch, device, stream);
  return fps_grid(batch, scratch, device, stream);
}

}  // namespace farpoint::cuda
