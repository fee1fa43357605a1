// Farthest point sampling with one thread block per cloud and a pruning tree.
//
// A sample changes only what is nearer to it than to any other sample: a handful of leaves of 32
// points, a lane each, in global memory. A leaf belongs to one warp, and neighbors to different
// warps, which meet once a sample to exchange their farthest points. Lanes keep the boxes of
// leaves, or of nodes of 32 leaves, in registers; more levels of nodes are in shared or global
// memory.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/sort/spatial_sort.h"
#include "cuda/fps/tree/partitions.cuh"
#include "cuda/fps/tree/picker.cuh"

namespace farpoint::cuda {
namespace tree {
namespace {

struct Shared {
  Records records;
  TailShared tail;
  // Behind it: the farthest points of each root, then the nodes that are in shared memory.
  __device__ PointRow* root_at(int root) {
    return reinterpret_cast<PointRow*>(this + 1) + root * kFan;
  }
  __device__ Node* nodes(int warps) { return reinterpret_cast<Node*>(root_at(warps)); }
};

// The samples were put down by their places, all but the first.
__device__ void put_rows(const Cloud& cloud, int emitted, const int* rows) {
  __syncthreads();
  for (int k = 1 + threadIdx.x; k < emitted; k += blockDim.x) {
    cloud.put_index(k, rows[cloud.indices[k] - cloud.index_base]);
  }
}

template <int kLevels, bool kInShared, int kBoxes = 1>
__global__ void __launch_bounds__(kMaxWarps* kWarp, kLevels == 1 || kInShared ? 2 : 1)
    sample_in_tree(FpsBatch batch, Storage storage) {
  auto& shared = shared_as<Shared>();
  int emitted = 0;
  {
    const Cloud cloud = checked_cloud(batch, blockIdx.x);
    if (__reduce_max_sync(kAllLanes, cloud.m) == 0) return;
    const int warps = blockDim.x / kWarp;
    // Through a shuffle: ptxas would read the special register again in every step.
    const int warp = __shfl_sync(kAllLanes, warp_id(), 0);
    const int64_t leaf = first_leaf(cloud.first_row, blockIdx.x);
    int* const rows = storage.rows + leaf * kLeaf;
    Node* nodes[kMaxLevels - 1] = {};
    find_nodes<kLevels>(storage, kInShared ? shared.nodes(warps) : nullptr,
                        first_node(cloud.first_row, blockIdx.x), warp, nodes);
    TreeBuilder<kLevels, NamedByPlace, kBoxes> tree(storage.leaves + leaf, {rows},
                                                    shared.root_at(warp * kBoxes), nodes,
                                                    share_of<kLevels>(warp, warps), warps);
    tree.build(cloud, storage.boxes + leaf);
    BlockPicker<kLevels, NamedByPlace, kBoxes> picker = {tree, shared.records, warps, warp};
    Farthest first = picker.farthest(1);
    if (first.distance > 0.0f) first.at = with_row(point_of(first.at), rows[row_of(first.at)]);
    emitted = sample_with(picker, cloud, first_sample(first, cloud));
  }
  // Made anew: what the loop does not need would cost it registers.
  const Cloud cloud = checked_cloud(batch, blockIdx.x);
  const int64_t leaf = first_leaf(cloud.first_row, blockIdx.x);
  put_rows(cloud, emitted, storage.rows + leaf * kLeaf);
  finish(cloud, emitted, shared.tail, reinterpret_cast<unsigned*>(storage.leaves + leaf));
}

constexpr int kMostBoxes = 2;

// Leaves of which a lane keeps the boxes.
int boxes_of(int points, const TreeShape& shape) {
  return shape.levels == 1 && points > capacity(shape.warps, 1) ? kMostBoxes : 1;
}

int levels_for(int points, int warps) {
  if (points <= kMostBoxes * capacity(warps, 1)) return 1;
  int levels = 2;
  while (points > capacity(warps, levels)) ++levels;
  return levels;
}

size_t shared_bytes(int points, const TreeShape& shape) {
  const size_t roots = shape.warps * boxes_of(points, shape) * kFan * sizeof(PointRow);
  return sizeof(Shared) + roots +
         (shape.in_shared ? nodes_of(points, shape.warps) * sizeof(Node) : 0);
}

int run(const FpsBatch& batch, const TreeShape& shape, const Storage& storage, void* stream) {
  const LaunchShape launch_shape = {static_cast<unsigned>(batch.clouds),
                                    static_cast<unsigned>(shape.warps * kWarp),
                                    shared_bytes(batch.max_points, shape)};
  const int boxes = boxes_of(batch.max_points, shape);
  void (*const kernel)(FpsBatch, Storage) = boxes > 1 ? sample_in_tree<1, false, kMostBoxes>
                                            : shape.levels == 1 ? sample_in_tree<1, false>
                                            : shape.in_shared   ? sample_in_tree<2, true>
                                            : shape.levels == 2 ? sample_in_tree<2, false>
                                            : shape.levels == 3 ? sample_in_tree<3, false>
                                                                : sample_in_tree<4, false>;
  return launch(kernel, launch_shape, stream, batch, storage);
}

// As many warps as give a processor some thirty with all its blocks, and each of them 16 leaves. A
// single warp has at most 32 of them.
int warps_for(const FpsBatch& batch, int64_t shared_bytes, int device) {
  constexpr int kWarpsOfProcessor = 32, kLeavesOfWarp = 16;
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int64_t nodes = nodes_of(batch.max_points, 1) * static_cast<int64_t>(sizeof(Node));
  const int64_t blocks =
      std::min<int64_t>(ceil_div(batch.clouds, processors), power_of_two(shared_bytes / nodes));
  const int64_t fewest = batch.max_points > capacity(1, 1) ? 2 : 1;
  const int64_t useful = std::max<int64_t>(1, batch.max_points / (kLeaf * kLeavesOfWarp));
  return power_of_two(
      std::min({int64_t{kMaxWarps}, std::max(kWarpsOfProcessor / blocks, fewest), useful}));
}

// Scratch memory: leaves and nodes, and in the place of leaves first the sort's.
// Offsets in bytes. At most 21 for a point in its leaf, 4 for its row in order, and 5 for nodes
// that do not fit in shared memory, or 8 for what the partitions of a cloud share.
struct Layout {
  size_t leaves, rows, boxes, order, bounds, counts, nodes[kMaxLevels - 1];
  size_t group_boxes, zeros, logs, words, end;
};

Layout layout_of(const FpsBatch& batch, const TreeShape& shape, int device) {
  size_t end = 0;
  const auto take = [&end](size_t bytes) {
    const size_t begin = end;
    end += (bytes + 15) / 16 * 16;
    return begin;
  };
  const int64_t places = first_leaf(batch.rows, batch.clouds) * kLeaf + kLeaf;
  const bool by_pieces = !shape.sorts_in_block;
  Layout at = {};
  at.leaves = take(places / kLeaf * sizeof(Leaf));
  at.rows = take(places * sizeof(int));
  at.boxes = take(places / kLeaf * sizeof(Box));
  at.order = take(by_pieces ? batch.rows * sizeof(int) : 0);
  at.bounds = take(by_pieces ? sort_bounds_bytes(batch) : 0);
  at.counts = take(by_pieces ? sort_counts_bytes(batch, device) : 0);
  const int64_t nodes = first_node(batch.rows, batch.clouds) + kGroup + 2;
  for (int l = 0; l < shape.levels - 1; ++l) {
    at.nodes[l] = take(shape.in_shared ? 0 : nodes * sizeof(Node));
  }
  const bool shares = shape.partitions > 1;
  const size_t groups = size_t{1} << group_shift(batch.max_points, shape.partitions);
  const size_t partitions = shares ? static_cast<size_t>(batch.clouds) * shape.partitions : 0;
  at.group_boxes = take(partitions * groups * sizeof(Box));
  at.zeros = take(partitions / shape.partitions * sizeof(unsigned));
  at.logs = take(shares ? batch.rows * sizeof(Key) : 0);
  at.words = take(partitions * sizeof(Words));
  at.end = end;
  return at;
}

Storage storage_in(char* memory, const Layout& at) {
  Storage storage = {reinterpret_cast<Leaf*>(memory + at.leaves),
                     reinterpret_cast<int*>(memory + at.rows),
                     reinterpret_cast<Box*>(memory + at.boxes),
                     {}};
  for (int l = 0; l < kMaxLevels - 1; ++l) {
    storage.nodes[l] = reinterpret_cast<Node*>(memory + at.nodes[l]);
  }
  return storage;
}

Partitions partitions_in(char* memory, const Layout& at, const FpsBatch& batch, int partitions) {
  return {partitions,
          group_shift(batch.max_points, partitions),
          reinterpret_cast<Box*>(memory + at.group_boxes),
          reinterpret_cast<unsigned*>(memory + at.zeros),
          reinterpret_cast<Key*>(memory + at.logs),
          reinterpret_cast<Words*>(memory + at.words)};
}

// Items lie where leaves will: these are written after the last pass.
SortStorage sort_storage_in(char* memory, const Layout& at, int64_t rows) {
  Item* const items = reinterpret_cast<Item*>(memory + at.leaves);
  return {reinterpret_cast<int*>(memory + at.order),
          {items, items + rows},
          reinterpret_cast<Bounds*>(memory + at.bounds),
          reinterpret_cast<int*>(memory + at.counts)};
}

}  // namespace
}  // namespace tree

int64_t fps_tree_capacity() { return tree::capacity(tree::kMaxWarps, tree::kMaxLevels); }

TreeShape fps_tree_shape(const FpsBatch& batch, int device, int warps) {
  const int shared = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  TreeShape shape = {warps > 0 ? warps : tree::warps_for(batch, shared, device), 1, false, false};
  shape.levels = tree::levels_for(batch.max_points, shape.warps);
  shape.in_shared = shape.levels == 2;
  if (tree::shared_bytes(batch.max_points, shape) > static_cast<size_t>(shared)) {
    shape = {tree::kMaxWarps, tree::levels_for(batch.max_points, tree::kMaxWarps), false, false};
  }
  shape.sorts_in_block = batch.max_points <= fps_sort_capacity(device);
  return shape;
}

size_t fps_tree_scratch(const FpsBatch& batch, const TreeShape& shape, int device) {
  return tree::layout_of(batch, shape, device).end;
}

int fps_tree(const FpsBatch& batch, const TreeShape& shape, void* scratch, int device,
             void* stream) {
  char* const memory = static_cast<char*>(scratch);
  const tree::Layout at = tree::layout_of(batch, shape, device);
  const tree::Storage storage = tree::storage_in(memory, at);
  const tree::SortStorage sort = tree::sort_storage_in(memory, at, batch.rows);
  int code = shape.sorts_in_block
                 ? tree::make_leaves_in_block(batch, storage, stream)
                 : tree::make_leaves_by_pieces(batch, sort, storage, device, stream);
  if (code || shape.partitions == 1) return code ? code : tree::run(batch, shape, storage, stream);
  const tree::Partitions partitions = tree::partitions_in(memory, at, batch, shape.partitions);
  code =
      cudaMemsetAsync(memory + at.zeros, 0, at.end - at.zeros, static_cast<cudaStream_t>(stream));
  if (!code) code = tree::run_partitioned(batch, shape, storage, partitions, device, stream);
  return code ? code : tree::merge_partitions(batch, storage, partitions, stream);
}

}  // namespace farpoint::cuda
