// Kernels for the nearest sample of every point, with samples in shared memory and four points a
// thread that share each read, and for the number of points of each sample.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/spatial_index.cuh"
#include "cuda/neighbors/warp_list.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPoints = 4;  // per thread
constexpr int kTile = 1024;
constexpr int kPerBlock = kThreads * kPoints;

struct Found {
  float squared;
  int row;
};

__device__ void load_tile(const SearchCloud& cloud, int begin, int count, float4* tile) {
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const Point p = load_point(cloud.xyz, begin + i);
    tile[i] = make_float4(p.x, p.y, p.z, 0.0f);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads)
    find_nearest(SearchBatch batch, const int64_t* query_lengths, int32_t* rows, float* squared,
                 int blocks_per_cloud) {
  float4* const tile = &shared_as<float4>();
  const int64_t b = blockIdx.x / blocks_per_cloud;
  const int begin = blockIdx.x % blocks_per_cloud * kPerBlock + static_cast<int>(threadIdx.x);
  const int64_t first = b * batch.queries_per_cloud;
  const int64_t count = query_lengths ? query_lengths[b] : batch.queries_per_cloud;
  const SearchCloud cloud = search_cloud(batch, b);
  Point p[kPoints];
  Found found[kPoints];
#pragma unroll
  for (int i = 0; i < kPoints; ++i) {
    const int q = begin + i * kThreads;
    p[i] = q < count ? query_point(batch, first + q) : Point{infinity(), 0.0f, 0.0f};
    found[i] = {infinity(), -1};
  }
  for (int start = 0; start < cloud.n; start += kTile) {
    const int samples = min(kTile, cloud.n - start);
    load_tile(cloud, start, samples, tile);
    for (int s = 0; s < samples; ++s) {
      const float4 v = tile[s];
#pragma unroll
      for (int i = 0; i < kPoints; ++i) {
        const float d = squared_distance(p[i], {v.x, v.y, v.z});
        if (d < found[i].squared) found[i] = {d, start + s};
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPoints; ++i) {
    const int q = begin + i * kThreads;
    if (q >= batch.queries_per_cloud) continue;
    rows[first + q] = found[i].row;
    squared[first + q] = found[i].squared;
  }
}

// The lowest key, of a point at a finite distance.
struct NearestRow {
  Point query;
  unsigned limit = kInfinity;
  Key lowest = kNoKey;

  __device__ bool admits(unsigned bits) const { return bits <= limit && bits < kInfinity; }
  __device__ void offer(PointRow p) {
    const int row = row_of(p);
    const float squared = squared_distance(point_of(p), query);
    if (row != kNoRow && squared < infinity()) {
      lowest = min(lowest, Key{__float_as_uint(squared)} << 32 | static_cast<unsigned>(row));
    }
    limit = min(limit, __reduce_min_sync(kAllLanes, static_cast<unsigned>(lowest >> 32)));
  }
  __device__ int row() const {
    const bool nearest = lowest >> 32 == limit;
    const int mine = nearest ? static_cast<int>(lowest & 0xffffffffu) : kNoRow;
    const int row = warp_min(mine);
    return row == kNoRow ? -1 : row;
  }
};

__global__ void __launch_bounds__(kSearchThreads)
    find_nearest_indexed(SearchBatch batch, SpatialIndex index, const int64_t* query_lengths,
                         int32_t* rows, float* squared) {
  const WarpQuery query = warp_query(batch);
  if (!query.exists) return;
  const int64_t place = query.number - query.b * batch.queries_per_cloud;
  NearestRow goal = {query_point(batch, query.number)};
  if (!query_lengths || place < query_lengths[query.b]) {
    search(indexed_cloud(batch, index, query.b), goal.query, goal);
  }
  const int row = goal.row();
  if (lane_id() != 0) return;
  rows[query.number] = row;
  squared[query.number] = __uint_as_float(goal.limit);
}

__global__ void __launch_bounds__(kWideThreads)
    find_nearest_wide(SearchBatch batch, const int64_t* query_lengths, int32_t* rows,
                      double* squared) {
  const int64_t query = query_of_thread();
  if (query >= batch.batch * batch.queries_per_cloud) return;
  const int64_t b = query / batch.queries_per_cloud;
  const bool asked = !query_lengths || query - b * batch.queries_per_cloud < query_lengths[b];
  const WideSearch search = wide_search(batch, query);
  double best = infinity();
  int32_t nearest = -1;
  for (int row = 0; row < search.n && asked; ++row) {
    const double here = search.squared(row);
    if (here < best) best = here, nearest = row;
  }
  rows[query] = nearest;
  squared[query] = best;
}

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    count_indices(const Index* assignment, int32_t* counts, int64_t total, int64_t n, int64_t m) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= total) return;
  const int64_t sample = assignment[i];
  assert(sample >= -1 && sample < m && "assignment: a sample is out of range");
  if (sample >= 0) atomicAdd(&counts[i / n * m + sample], 1);
}

}  // namespace

int nearest(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows, float* squared,
            int device, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  if (batch.index) {
    SpatialIndex index;
    if (const int code = build_index(batch, index, device, stream)) return code;
    return launch(find_nearest_indexed, search_shape(batch), stream, batch, index, query_lengths,
                  rows, squared);
  }
  const auto blocks = static_cast<int>(ceil_div(batch.queries_per_cloud, kPerBlock));
  const LaunchShape shape = {batch.batch * blocks, kThreads, kTile * sizeof(float4)};
  return launch(find_nearest, shape, stream, batch, query_lengths, rows, squared, blocks);
}

int nearest_wide(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows,
                 double* squared, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  return launch(find_nearest_wide, wide_shape(batch), stream, batch, query_lengths, rows, squared);
}

int count(const void* assignment, bool wide_index, int32_t* counts, int64_t batch, int64_t n,
          int64_t m, void* stream) {
  const int64_t total = batch * n;
  if (total == 0) return cudaSuccess;
  const LaunchShape shape = {ceil_div(total, kThreads), kThreads};
  return wide_index
             ? launch(count_indices<int64_t>, shape, stream, assignment, counts, total, n, m)
             : launch(count_indices<int32_t>, shape, stream, assignment, counts, total, n, m);
}

}  // namespace farpoint::cuda
