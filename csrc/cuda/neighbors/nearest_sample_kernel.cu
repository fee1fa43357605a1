// Kernels for the nearest sample of every point, with samples in shared memory and four points a
// thread that share each read, and for the number of points of each sample.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/search.cuh"

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

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    count_indices(const Index* assignment, int32_t* counts, int64_t total, int64_t n, int64_t m) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= total) return;
  const int64_t sample = assignment[i];
  assert(sample >= -1 && sample < m && "assignment: a sample is out of range");
  if (sample >= 0) atomicAdd(&counts[i / n * m + sample], 1);
}

unsigned ceil_div(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace

int nearest(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows, float* squared,
            int device, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  if (batch.index) return nearest_indexed(batch, query_lengths, rows, squared, device, stream);
  const int blocks = static_cast<int>(ceil_div(batch.queries_per_cloud, kPerBlock));
  const LaunchShape shape = {static_cast<unsigned>(batch.batch * blocks), kThreads,
                             kTile * sizeof(float4)};
  return launch(find_nearest, shape, stream, batch, query_lengths, rows, squared, blocks);
}

int count(const void* assignment, bool wide_index, int32_t* counts, int64_t batch, int64_t n,
          int64_t m, void* stream) {
  const int64_t total = batch * n;
  if (total == 0) return cudaSuccess;
  const LaunchShape shape = {ceil_div(total, kThreads), kThreads};
  if (wide_index) {
    return launch(count_indices<int64_t>, shape, stream, static_cast<const int64_t*>(assignment),
                  counts, total, n, m);
  }
  return launch(count_indices<int32_t>, shape, stream, static_cast<const int32_t*>(assignment),
                counts, total, n, m);
}

}  // namespace farpoint::cuda
