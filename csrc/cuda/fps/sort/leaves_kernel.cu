// The leaves of clouds whose rows several blocks have brought in order, by as many warps as there
// is room for: each of them waits for points that lie anywhere in its cloud.
#include "cuda/common/launch.cuh"
#include "cuda/fps/sort/leaves.cuh"
#include "cuda/fps/sort/spatial_sort.h"

namespace farpoint::cuda::tree {
namespace {

constexpr int kLeafWarps = 8, kLeavesOfWarp = 4;

__global__ void __launch_bounds__(kLeafWarps* kWarp)
    make_leaves(FpsBatch batch, const int* order, Storage storage, int blocks) {
  const int b = blockIdx.x / blocks;
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  const int64_t first_of_cloud = first_leaf(cloud.first_row, b);
  const int first = (blockIdx.x % blocks * kLeafWarps + warp_id()) * kLeavesOfWarp;
  for (int leaf = first; leaf < first + kLeavesOfWarp && leaf * kLeaf < cloud.n; ++leaf) {
    const int at = leaf * kLeaf + lane_id();
    const int row = at < cloud.n ? order[cloud.first_row + at] : kNoRow;
    put_leaf(storage, first_of_cloud + leaf, cloud, row);
  }
}

}  // namespace

int make_leaves_by_pieces(const FpsBatch& batch, const SortStorage& sort, const Storage& storage,
                          int device, void* stream) {
  if (const int code = sort_by_pieces(batch, sort, device, stream)) return code;
  const int blocks =
      static_cast<int>(ceil_div(batch.max_points, kLeaf * kLeafWarps * kLeavesOfWarp));
  const LaunchShape shape = {static_cast<unsigned>(batch.clouds * blocks), kLeafWarps * kWarp};
  return launch(make_leaves, shape, stream, batch, sort.order, storage, blocks);
}

}  // namespace farpoint::cuda::tree
