// Selects and launches the farthest point sampling kernel for a batch, from host numbers alone.
#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"

namespace farpoint::cuda {

namespace {

// Above this the lazy kernel serves a step faster than one block can look at all points; a batch
// that leaves no second processor to a cloud has nothing to gain from it.
constexpr int kBlockPoints = 4096;
// The lazy head takes its first samples one by one; fewer than these are faster in a cluster.
constexpr int kFewestLazySamples = 64;
// Pairs of a point and a sample from which a sort costs less than looking at most of them.
constexpr double kPairsWorthSorting = 4e9;
// A launch per sample is cheaper than setting up anything.
constexpr int kFewestSamples = 4;

bool fits_block(const FpsBatch& batch, int device) {
  return batch.max_points <= fps_block_capacity(device);
}

bool is_lazy(FpsMethod method) {
  return method == FpsMethod::kLazy || method == FpsMethod::kLazySorted;
}

FpsMethod best_for_few(const FpsBatch& batch, int device) {
  if (fps_cluster_fits(batch, device)) return FpsMethod::kCluster;
  if (fits_block(batch, device)) return FpsMethod::kBlock;
  return batch.max_samples < kFewestSamples ? FpsMethod::kGrid : FpsMethod::kLazy;
}

FpsMethod best_method(const FpsBatch& batch, int device) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const bool crowded = 2 * batch.clouds > processors;
  const bool small = batch.max_points <= kBlockPoints || crowded;
  if (small && fits_block(batch, device)) return FpsMethod::kBlock;
  if (batch.max_samples < kFewestLazySamples) return best_for_few(batch, device);
  const double pairs = static_cast<double>(batch.rows) * batch.max_samples;
  return pairs < kPairsWorthSorting ? FpsMethod::kLazy : FpsMethod::kLazySorted;
}

}  // namespace

FpsPlan fps_plan(const FpsBatch& batch, FpsMethod wanted, int device) {
  const FpsMethod method = wanted == FpsMethod::kAuto ? best_method(batch, device) : wanted;
  if (method == FpsMethod::kBlock && fits_block(batch, device)) return {method, 0, false, 0, {}};
  if (method == FpsMethod::kCluster && fps_cluster_fits(batch, device)) {
    return {method, 0, false, 0, {}};
  }
  if (is_lazy(method)) {
    const bool sorted = method == FpsMethod::kLazySorted;
    return {method, fps_lazy_scratch(batch, device), sorted, fps_lazy_head_points(batch), {}};
  }
  if (method == FpsMethod::kTree && batch.max_points <= fps_tree_capacity()) {
    return fps_plan_tree(batch, fps_tree_shape(batch, device), device);
  }
  return {FpsMethod::kGrid, fps_grid_scratch(batch), false, 0, {}};
}

FpsPlan fps_plan_tree(const FpsBatch& batch, const TreeShape& shape, int device) {
  return {FpsMethod::kTree, fps_tree_scratch(batch, shape, device), false, 0, shape};
}

int fps(const FpsBatch& batch, const FpsPlan& plan, void* scratch, const int64_t* order, int device,
        void* stream) {
  if (batch.clouds == 0 || batch.max_samples == 0) return cudaSuccess;
  if (plan.method == FpsMethod::kBlock) return fps_block(batch, stream);
  if (plan.method == FpsMethod::kCluster) return fps_cluster(batch, device, stream);
  if (is_lazy(plan.method)) {
    return fps_lazy(batch, plan.head_points, scratch, order, device, stream);
  }
  if (plan.method == FpsMethod::kTree) return fps_tree(batch, plan.tree, scratch, device, stream);
  return fps_grid(batch, scratch, device, stream);
}

}  // namespace farpoint::cuda
