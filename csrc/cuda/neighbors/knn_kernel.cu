// k nearest neighbors kernels, a warp per query.
//
// Lanes look at 32 points at once, and the list is sorted across the lanes' registers, so that an
// insertion is one shuffle and one comparison. Warps of a block share each tile of points. More
// than 128 neighbors take several passes, each for the keys beyond the last one's.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/warp_list.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQueriesPerBlock = kThreads / kWarp;
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
    for (int i = threadIdx.x; i < 3 * count; i += kThreads) (&tile->x)[i] = from[i];
    __syncthreads();
    for (int first = 0; first < count; first += kWarp) {
      const int i = first + lane_id();
      const Key key = i < count ? key_of(tile[i], query, query_finite, begin + i) : kNoKey;
      list.offer(key >= floor ? key : kNoKey, limit, size);
    }
  }
}

template <int kDepth>
__global__ void __launch_bounds__(kThreads)
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

// Gradients are checked in float64: a thread per query, a pass per neighbor.
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

__device__ Neighbor neighbor(const double* p, const double* q, int row) {
  const double infinite = infinity();
  if (!is_finite(p)) return {true, infinite, row};
  if (!is_finite(q)) return {false, infinite, row};
  const double dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2];
  return {false, fma(dz, dz, fma(dy, dy, dx * dx)), row};
}

__global__ void __launch_bounds__(kThreads)
    find_neighbors_wide(SearchBatch batch, int k, int32_t* rows, double* squared) {
  const int64_t query = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (query >= batch.batch * batch.queries_per_cloud) return;
  const int64_t b = query / batch.queries_per_cloud;
  const int n = static_cast<int>(batch.lengths ? batch.lengths[b] : batch.points);
  const double* const xyz = static_cast<const double*>(batch.xyz) + 3 * b * batch.points;
  const double* const q = static_cast<const double*>(batch.queries) + 3 * query;
  Neighbor last = {false, -1.0, -1};
  for (int j = 0; j < k; ++j) {
    Neighbor best = {true, infinity(), 0x7fffffff};
    for (int i = 0; i < n; ++i) {
      const Neighbor next = neighbor(xyz + 3 * i, q, i);
      if (last.before(next) && next.before(best)) best = next;
    }
    rows[query * k + j] = j < n ? best.row : rows[query * k];
    squared[query * k + j] = best.squared;
    last = best;
  }
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int knn(const SearchBatch& batch, int k, int32_t* rows, void* squared, bool wide, int device,
        void* stream) {
  const int64_t queries = batch.batch * batch.queries_per_cloud;
  if (queries == 0) return cudaSuccess;
  if (wide) {
    const LaunchShape shape = {static_cast<unsigned>(ceil_div(queries, kThreads)), kThreads};
    return launch(find_neighbors_wide, shape, stream, batch, k, rows,
                  static_cast<double*>(squared));
  }
  if (batch.index) {
    return knn_indexed(batch, k, rows, static_cast<float*>(squared), device, stream);
  }
  const int blocks = static_cast<int>(ceil_div(batch.queries_per_cloud, kQueriesPerBlock));
  const LaunchShape shape = {static_cast<unsigned>(batch.batch * blocks), kThreads,
                             kTile * sizeof(Point)};
  const auto kernel = k <= kWarp ? find_neighbors<1> : find_neighbors<4>;
  return launch(kernel, shape, stream, batch, k, rows, static_cast<float*>(squared), blocks);
}

}  // namespace farpoint::cuda
