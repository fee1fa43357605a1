// Farthest point sampling of one cloud by several blocks, each in its own partition of the cloud.
//
// Each block samples over a pruning tree of its partition, and waits for others only where a point
// lies near their leaves (peers.cuh); csrc/cpu/kernels/fps/parallel_picker.h explains why the
// result is that of one block. Blocks wait for one another, so the launch is cooperative.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/tree/partitions.cuh"
#include "cuda/fps/tree/peers.cuh"
#include "cuda/fps/tree/picker.cuh"

namespace farpoint::cuda {
namespace tree {
namespace {

// One warp for each group of 32 leaves: its box, and the lowest finite row of a cloud whose start
// is not finite.
__global__ void __launch_bounds__(kWarp)
    find_groups(FpsBatch batch, Storage storage, Partitions partitions) {
  const int b = blockIdx.x / partitions.groups(), group = blockIdx.x % partitions.groups();
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  const Cuts cuts(cloud.n, partitions.count);
  const int part = group >> partitions.group_shift;
  const int leaf = (group - (part << partitions.group_shift)) * kGroupLeaves + lane_id();
  const bool exists = leaf < cuts.leaves_of(part);
  const int64_t at = first_leaf(cloud.first_row, b) + cuts.first_point(part) / kLeaf + leaf;
  const Box whole = warp_box(exists ? storage.boxes[at] : empty_box());
  if (lane_id() == 0) partitions.group_boxes[blockIdx.x] = whole;
  if (is_finite(cloud.point(cloud.start))) return;
  int lowest = kNoRow;
  for (int i = kLeaf - 1; exists && i >= 0; --i) {
    const int64_t place = at * kLeaf + i;
    if (storage.leaves[at].nearest[i] > 0.0f) lowest = storage.rows[place];
  }
  lowest = warp_min(lowest);
  if (lane_id() == 0) atomicMax(&partitions.first[b], static_cast<unsigned>(kNoRow - lowest));
}

struct Shared {
  Records records;
  PeersShared peers;
  int stop_rule;
  // Behind it: the farthest points of each warp's root, then the nodes.
  __device__ PointRow* root_at(int warp) {
    return reinterpret_cast<PointRow*>(this + 1) + warp * kFan;
  }
  __device__ Node* nodes(int warps) { return reinterpret_cast<Node*>(root_at(warps)); }
};

// Takes samples of one part until it has no point left farther than `stop_squared`, or all that
// are wanted are known to come before.
template <class Picker>
__device__ void sample_partition(Picker& picker, Peers& peers, StopRule& stop_rule,
                                 float stop_squared, Point first) {
  picker.apply(first);
  Farthest f = picker.farthest(0);
  int turn = 1;
  while (f.distance > 0.0f) {
    const Key key = key_of(f.distance, row_of(f.at));
    if (stop_rule.is_reached(key, peers.sampled())) break;
    peers.publish(key);
    if (peers.is_any_behind(key)) {
      const Peers::Found found = peers.poll(f, key);
      for (int i = 0; i < found.arrived; ++i) {
        picker.apply(peers.pending(i));
        __syncwarp();  // two of them may store the farthest point of one leaf, each from its lane
      }
      if (found.arrived > 0) f = picker.farthest(turn++);
      if (found.arrived > 0 || found.waits) continue;
    }
    peers.take(key);
    // Taken all the same: it is the covering radius of the samples before it.
    if (f.distance <= stop_squared) break;
    picker.apply(point_of(f.at));
    f = picker.farthest(turn++);
  }
  peers.publish(0);
}

template <int kLevels, bool kInShared>
__global__ void __launch_bounds__(kMaxWarps* kWarp, 1)
    sample_partitioned(FpsBatch batch, Storage storage, Partitions partitions, int first_cloud) {
  auto& shared = shared_as<Shared>();
  const int b = first_cloud + blockIdx.x / partitions.count, self = blockIdx.x % partitions.count;
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  const Cuts cuts(cloud.n, partitions.count);
  Cloud own = cloud;
  own.n = cuts.points_of(self);
  const int warps = blockDim.x / kWarp, begin = cuts.first_point(self);
  // Through a shuffle: ptxas would read the special register again in every step.
  const int warp = __shfl_sync(kAllLanes, warp_id(), 0);
  const int64_t leaf = first_leaf(cloud.first_row, b) + begin / kLeaf;
  Node* nodes[kMaxLevels - 1] = {};
  find_nodes<kLevels>(storage, kInShared ? shared.nodes(warps) : nullptr, 0, warp, nodes);
  int* const rows = storage.rows + leaf * kLeaf;
  TreeBuilder<kLevels, NamedByRow, 1> tree(storage.leaves + leaf, {rows}, shared.root_at(warp),
                                           nodes, share_of<kLevels>(warp, warps), warps);
  tree.build(own, storage.boxes + leaf);
  Peers peers(partitions, storage.boxes, cloud, b, self, shared.peers);
  __syncthreads();
  BlockPicker<kLevels, NamedByRow, 1> picker = {tree, shared.records, warps, warp};
  StopRule stop_rule(partitions, cloud, b, self, shared.stop_rule);
  const Point first = point_of(first_sample(cloud, partitions.first[b]));
  sample_partition(picker, peers, stop_rule, fmaxf(cloud.stop_squared, 0.0f), first);
}

size_t shared_bytes(int64_t points, const TreeShape& shape) {
  return sizeof(Shared) + shape.warps * kFan * sizeof(PointRow) +
         (shape.levels > 1 ? nodes_of(points, shape.warps) * sizeof(Node) : 0);
}

int launch_partitioned(const FpsBatch& batch, const TreeShape& shape, const Storage& storage,
                       const Partitions& partitions, int device, void* stream) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int most = std::max(1, processors / shape.partitions);
  const size_t bytes = shared_bytes(points_of_partition(batch.max_points, shape.partitions), shape);
  for (int first = 0; first < batch.clouds; first += most) {
    const int clouds = std::min(most, batch.clouds - first);
    const LaunchShape launch_shape = {static_cast<unsigned>(clouds * shape.partitions),
                                      static_cast<unsigned>(shape.warps * kWarp), bytes, true};
    const auto kernel =
        shape.levels == 1 ? sample_partitioned<1, false> : sample_partitioned<2, true>;
    if (const int code = launch(kernel, launch_shape, stream, batch, storage, partitions, first)) {
      return code;
    }
  }
  return cudaSuccess;
}

}  // namespace

int run_partitioned(const FpsBatch& batch, const TreeShape& shape, const Storage& storage,
                    const Partitions& partitions, int device, void* stream) {
  const auto blocks = static_cast<unsigned>(batch.clouds * partitions.groups());
  const LaunchShape groups = {blocks, kWarp};
  const int code = launch(find_groups, groups, stream, batch, storage, partitions);
  return code ? code : launch_partitioned(batch, shape, storage, partitions, device, stream);
}

}  // namespace tree

TreeShape fps_partitioned_shape(const FpsBatch& batch, int partitions, int device, int warps) {
  constexpr int kPointsOfWarp = 512, kFewestWarps = 4;
  TreeShape shape = fps_tree_shape(batch, device, warps);
  const int64_t points = tree::points_of_partition(batch.max_points, partitions);
  TreeShape of_part = {warps, 1, false, shape.sorts_in_block, partitions};
  if (warps == 0) {
    of_part.warps =
        std::clamp(tree::power_of_two(points / kPointsOfWarp), kFewestWarps, tree::kMaxWarps);
  }
  while (points > tree::capacity(of_part.warps, of_part.levels)) ++of_part.levels;
  of_part.in_shared = of_part.levels > 1;
  const int shared = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const bool fits = of_part.levels <= 2 &&
                    tree::shared_bytes(points, of_part) <= static_cast<size_t>(shared) &&
                    device_attribute(cudaDevAttrCooperativeLaunch, device) != 0;
  return fits && partitions > 1 ? of_part : shape;
}

}  // namespace farpoint::cuda
