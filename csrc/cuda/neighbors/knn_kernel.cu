// k nearest neighbors kernels, a warp per query.
//
// Lanes look at 32 points at once, and the list is sorted across the lanes' registers, so that an
// insertion is one shuffle and one comparison. Warps of a block share each tile of points. More
// than 128 neighbors take several passes, each for the keys beyond the last one's. With a spatial
// index lanes look only at leaves that can matter.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/spatial_index.cuh"
#include "cuda/neighbors/warp_list.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kTile = 1024;

// The `size` lowest keys from `floor` on, of the block's cloud. All warps take part.
template <int kDepth>
__device__ void scan(const SearchCloud& cloud, Point query, Key floor, int size, Point* tile,
                     WarpList<kDepth>& list) {
  const bool query_finite = is_finite(query);
  Key limit = kNoKey;
  list.clear();
  for (int begin = 0; begin < cloud.n; begin += kTile) {
    const int count = min(kTile, cloud.n - begin);
    const float* const from = cloud.xyz + 3 * int64_t{begin};
    __syncthreads();
    for (int i = threadIdx.x; i < 3 * count; i += kSearchThreads) (&tile->x)[i] = from[i];
    __syncthreads();
    for (int first = 0; first < count; first += kWarp) {
      const int i = first + lane_id();
      const Key key = i < count ? key_of(tile[i], query, query_finite, begin + i) : kNoKey;
      list.offer(key >= floor ? key : kNoKey, limit, size);
    }
  }
}

template <int kDepth>
__global__ void __launch_bounds__(kSearchThreads)
    find_neighbors(SearchBatch batch, int k, int32_t* rows, float* squared, int blocks_per_cloud) {
  Point* const tile = &shared_as<Point>();
  const int64_t b = blockIdx.x / blocks_per_cloud;
  const int wanted = blockIdx.x % blocks_per_cloud * kQueriesPerBlock + warp_id();
  const int q = min(wanted, batch.queries_per_cloud - 1);
  const int64_t query = b * batch.queries_per_cloud + q;
  const SearchCloud cloud = search_cloud(batch, b);
  assert(cloud.n >= 1 && "lengths: a cloud has no points");
  WarpList<kDepth> list;
  Key floor = 0;
  int32_t nearest = 0;
  for (int done = 0; done < k; done += kDepth * kWarp) {
    const int size = min(kDepth * kWarp, k - done);
    scan(cloud, query_point(batch, query), floor, size, tile, list);
    if (done == 0) nearest = static_cast<int32_t>(__shfl_sync(kAllLanes, list.at[0], 0));
    if (q == wanted) {
      write(list, size, nearest, rows + query * k + done, squared + query * k + done);
    }
    const Key highest = list.highest(size);
    floor = highest == kNoKey ? kNoKey : highest + 1;
  }
}

// The lowest keys from `floor` on.
template <int kDepth>
struct NearestRows {
  Point query;
  bool query_finite;
  Key floor;
  int size;
  Key limit = kNoKey;
  WarpList<kDepth> list = {};

  __device__ bool admits(unsigned bits) const { return bits <= limit >> 32; }
  __device__ void offer(PointRow p) {
    const int row = row_of(p);
    const Key key = row == kNoRow ? kNoKey : key_of(point_of(p), query, query_finite, row);
    list.offer(key >= floor ? key : kNoKey, limit, size);
  }
};

template <int kDepth>
__global__ void __launch_bounds__(kSearchThreads, kSearchBlocks)
    find_neighbors_indexed(SearchBatch batch, SpatialIndex index, int k, int32_t* rows,
                           float* squared) {
  const WarpQuery query = warp_query(batch);
  if (!query.exists) return;
  const IndexedCloud cloud = indexed_cloud(batch, index, query.b);
  assert(cloud.n >= 1 && "lengths: a cloud has no points");
  const Point at = query_point(batch, query.number);
  Key floor = 0;
  int32_t nearest = 0;
  for (int done = 0; done < k; done += kDepth * kWarp) {
    NearestRows<kDepth> goal = {at, is_finite(at), floor, min(kDepth * kWarp, k - done)};
    goal.list.clear();
    search(cloud, at, goal);
    if (done == 0) nearest = static_cast<int32_t>(__shfl_sync(kAllLanes, goal.list.at[0], 0));
    const int64_t first = query.number * k + done;
    write(goal.list, goal.size, nearest, rows + first, squared + first);
    const Key highest = goal.list.highest(goal.size);
    floor = highest == kNoKey ? kNoKey : highest + 1;
  }
}

// Gradients are checked in float64: a pass per neighbor.
struct Neighbor {
  bool missing;
  double squared;
  int row;

  __device__ bool before(const Neighbor& other) const {
    if (missing != other.missing) return !missing;
    return squared != other.squared ? squared < other.squared : row < other.row;
  }
};

__device__ bool is_finite(const double* p) {
  return p[0] - p[0] == 0 && p[1] - p[1] == 0 && p[2] - p[2] == 0;
}

__device__ Neighbor neighbor(const WideSearch& search, int row) {
  const bool missing = !is_finite(search.xyz + 3 * int64_t{row});
  const bool apart = missing || !is_finite(search.query);
  return {missing, apart ? double{infinity()} : search.squared(row), row};
}

__global__ void __launch_bounds__(kWideThreads)
    find_neighbors_wide(SearchBatch batch, int k, int32_t* rows, double* squared) {
  const int64_t query = query_of_thread();
  if (query >= batch.batch * batch.queries_per_cloud) return;
  const WideSearch search = wide_search(batch, query);
  Neighbor last = {false, -1.0, -1};
  for (int j = 0; j < k; ++j) {
    Neighbor best = {true, infinity(), 0x7fffffff};
    for (int i = 0; i < search.n; ++i) {
      const Neighbor next = neighbor(search, i);
      if (last.before(next) && next.before(best)) best = next;
    }
    rows[query * k + j] = j < search.n ? best.row : rows[query * k];
    squared[query * k + j] = best.squared;
    last = best;
  }
}

}  // namespace

int knn(const SearchBatch& batch, int k, int32_t* rows, void* squared, bool wide, int device,
        void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  if (wide) return launch(find_neighbors_wide, wide_shape(batch), stream, batch, k, rows, squared);
  if (batch.index) {
    SpatialIndex index;
    if (const int code = build_index(batch, index, device, stream)) return code;
    const auto kernel = k <= kWarp ? find_neighbors_indexed<1> : find_neighbors_indexed<4>;
    return launch(kernel, search_shape(batch), stream, batch, index, k, rows, squared);
  }
  const auto blocks = static_cast<int>(ceil_div(batch.queries_per_cloud, kQueriesPerBlock));
  const LaunchShape shape = {batch.batch * blocks, kSearchThreads, kTile * sizeof(Point)};
  const auto kernel = k <= kWarp ? find_neighbors<1> : find_neighbors<4>;
  return launch(kernel, shape, stream, batch, k, rows, squared, blocks);
}

}  // namespace farpoint::cuda
