// Selects and launches the farthest point sampling kernel for a batch, from host numbers alone.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"

namespace farpoint::cuda {

namespace {

// Points of a cloud that has a processor to itself, and of one that does not, up to which whole
// steps take no longer than the tree with its sort.
constexpr int kAlonePoints = 4096, kSharedPoints = 1024;
// Samples that do not pay for a sort of what the block kernel can take.
constexpr int kUnsortedSamples = 128;
// A launch per sample is cheaper than a sort where there are few samples of a few large clouds.
constexpr int kFewSamples = 64;

// Partitioned clouds use a share of the device, which leaves the rest to other kernels. They gain
// with many partitions or points, and with far more samples than launches.
constexpr int kShareOfPartitions = 4, kMinPartitions = 8;
constexpr int kPointsByPartitions = 65'536, kMinPartitionedSamples = 256;

bool fits_block(const FpsBatch& batch, int device) {
  return batch.max_points <= fps_block_capacity(device);
}

bool prefers_block(const FpsBatch& batch, int processors) {
  if (batch.max_samples < kUnsortedSamples) return true;
  return batch.max_points <= (batch.clouds <= processors ? kAlonePoints : kSharedPoints);
}

// Off by default: no GPU has run this protocol between blocks yet.
bool partitions_allowed() {
  static const bool allowed = [] {
    const char* const wanted = std::getenv("FARPOINT_FPS_PARTS");
    return wanted != nullptr && std::string_view(wanted) == "1";
  }();
  return allowed;
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
  if (!partitions_allowed() || batch.max_samples < kMinPartitionedSamples) return false;
  const int partitions = partitions_on(processors / kShareOfPartitions, batch.clouds);
  return partitions >= kMinPartitions && batch.max_points >= kPointsByPartitions / partitions;
}

FpsMethod best_method(const FpsBatch& batch, int device) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  if (prefers_block(batch, processors) && fits_block(batch, device)) return FpsMethod::kBlock;
  if (batch.max_points > fps_tree_capacity()) return FpsMethod::kGrid;
  const double occupancy = 1.0 + 8.0 * batch.clouds / processors;
  if (batch.max_samples * occupancy < kFewSamples) return FpsMethod::kGrid;
  return prefers_partitions(batch, processors) ? FpsMethod::kPartitioned : FpsMethod::kTree;
}

// One cloud after another where all processors together hold no more.
TreeShape shape_of(const FpsBatch& batch, FpsMethod wanted, FpsMethod method, int device,
                   int warps) {
  if (method == FpsMethod::kTree) return fps_tree_shape(batch, device, warps);
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int partitions = wanted == FpsMethod::kAuto
                             ? partitions_on(processors / kShareOfPartitions, batch.clouds)
                             : partitions_on(processors, 1);
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
