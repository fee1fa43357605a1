// Makes the spatial index of a search: the sort of the sampling tree, then leaves and nodes, a
// block for each node.
#include <algorithm>
#include <cmath>

#include "cuda/common/launch.cuh"
#include "cuda/fps/sort/spatial_sort.h"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/spatial_index.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = kNodePoints;

// The box of a warp's points in column `column` of `boxes`.
__device__ void put_box(BoxRow& boxes, int column, const tree::Box& box) {
  const float low[] = {box.low.x, box.low.y, box.low.z};
  const float high[] = {box.high.x, box.high.y, box.high.z};
  if (lane_id() != 0) return;
  for (int a = 0; a < 3; ++a) boxes.low[a][column] = low[a], boxes.high[a][column] = high[a];
}

__device__ tree::Box lane_box(const BoxRow& boxes) {
  const int lane = lane_id();
  return {{boxes.low[0][lane], boxes.low[1][lane], boxes.low[2][lane]},
          {boxes.high[0][lane], boxes.high[1][lane], boxes.high[2][lane]}};
}

__global__ void __launch_bounds__(kThreads)
    make_node(SearchBatch batch, const int* order, SpatialIndex index) {
  auto& boxes = shared_as<BoxRow>();
  const int64_t b = blockIdx.x / index.nodes_per_cloud;
  const int node = static_cast<int>(blockIdx.x % index.nodes_per_cloud);
  const SearchCloud cloud = search_cloud(batch, b);
  const int place = node * kNodePoints + static_cast<int>(threadIdx.x);
  const int row = place < cloud.n ? order[b * batch.points + place] : kNoRow;
  const Point p = row != kNoRow ? load_point(cloud.xyz, row) : Point{0.0f, 0.0f, 0.0f};
  index.points[int64_t{blockIdx.x} * kNodePoints + threadIdx.x] = with_row(p, row);
  const bool counts = row != kNoRow && all_finite(p);
  put_box(boxes, warp_id(), tree::warp_box(p, counts));
  __syncthreads();
  if (warp_id() == 0) {
    BoxRow& group = index.nodes[b * index.groups_per_cloud + node / kFan];
    put_box(group, node % kFan, tree::warp_box(lane_box(boxes)));
  }
  constexpr int kWords = sizeof(BoxRow) / sizeof(float);
  auto* const leaves = &index.leaves[blockIdx.x].low[0][0];
  if (threadIdx.x < kWords) leaves[threadIdx.x] = (&boxes.low[0][0])[threadIdx.x];
}

// What the sort takes of a search: the clouds, of which nothing is sampled.
FpsBatch sort_batch(const SearchBatch& batch) {
  FpsBatch result = {};
  result.xyz = static_cast<const float*>(batch.xyz);
  result.lengths = batch.lengths;
  result.clouds = static_cast<int>(batch.batch);
  result.max_points = batch.points;
  result.rows = batch.batch * batch.points;
  return result;
}

// Offsets in bytes: at most 16 for a point in its leaf, 4 for its row in order, and a few for boxes
// and counts. The sort's items lie where leaves will.
struct Layout {
  size_t points, order, leaves, nodes, bounds, counts, end;
};

Layout layout_of(const SearchBatch& batch, int device) {
  size_t end = 0;
  const auto take = [&end](size_t bytes) {
    const size_t begin = end;
    end += (bytes + 255) / 256 * 256;
    return begin;
  };
  const size_t nodes = batch.batch * ceil_div(batch.points, kNodePoints);
  const size_t groups = batch.batch * ceil_div(batch.points, kNodePoints * kFan);
  const FpsBatch sorted = sort_batch(batch);
  Layout at = {};
  at.points = take(nodes * kNodePoints * sizeof(PointRow));
  at.order = take(sorted.rows * sizeof(int));
  at.leaves = take(nodes * sizeof(BoxRow));
  at.nodes = take(groups * sizeof(BoxRow));
  at.bounds = take(tree::sort_bounds_bytes(sorted));
  at.counts = take(tree::sort_counts_bytes(sorted, device));
  at.end = end;
  return at;
}

}  // namespace

// Times on an H100 (docs/performance_cuda.md). A scan is a chain of rows, and longer where a
// processor has more queries than hide that; an index costs its launches, then a sort and searches.
bool wants_index(const SearchBatch& batch, Search search, int device) {
  struct Nanoseconds {
    double row, query_row, query;  // of a scan, also for each query; of the index for each query
  };
  constexpr double kLaunches = 115'000, kOfSort = 5;  // for a point of a processor
  constexpr Nanoseconds kOfSearch[] = {{20, 0.83, 460}, {7.5, 0.17, 460}, {35, 0.04, 70}};
  const auto [row, query_row, query] = kOfSearch[static_cast<int>(search)];
  const FpsBatch sorted = sort_batch(batch);
  const double processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const double queries = static_cast<double>(batch.batch * batch.queries_per_cloud) / processors;
  const int pieces = tree::sort_pieces(sorted, device);
  const double turns = std::ceil(batch.batch * pieces / processors);
  const double index = kLaunches + turns * kOfSort * batch.points / pieces + queries * query;
  return batch.points * std::max(row, queries * query_row) > index;
}

size_t index_bytes(const SearchBatch& batch, int device) { return layout_of(batch, device).end; }

int build_index(const SearchBatch& batch, SpatialIndex& index, int device, void* stream) {
  const Layout at = layout_of(batch, device);
  char* const memory = static_cast<char*>(batch.index);
  const int nodes = static_cast<int>(ceil_div(batch.points, kNodePoints));
  index = {reinterpret_cast<PointRow*>(memory + at.points),
           reinterpret_cast<BoxRow*>(memory + at.leaves),
           reinterpret_cast<BoxRow*>(memory + at.nodes), nodes,
           static_cast<int>(ceil_div(nodes, kFan))};
  const FpsBatch sorted = sort_batch(batch);
  tree::Item* const items = reinterpret_cast<tree::Item*>(memory + at.points);
  int* const order = reinterpret_cast<int*>(memory + at.order);
  const tree::SortStorage storage = {order,
                                     {items, items + sorted.rows},
                                     reinterpret_cast<tree::Bounds*>(memory + at.bounds),
                                     reinterpret_cast<int*>(memory + at.counts)};
  if (const int code = tree::sort_by_pieces(sorted, storage, device, stream)) return code;
  const LaunchShape shape = {batch.batch * nodes, kThreads, sizeof(BoxRow)};
  return launch(make_node, shape, stream, batch, order, index);
}

}  // namespace farpoint::cuda
