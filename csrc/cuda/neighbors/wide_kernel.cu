// Ball query and nearest sample in float64: a thread per query looks at every row.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/search.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 128;

struct WideSearch {
  const double* xyz;
  const double* query;
  int n;

  // Not less than anything where a coordinate is not finite.
  __device__ double squared(int row) const {
    const double* const p = xyz + 3 * int64_t{row};
    double sum = 0;
    for (int d = 0; d < 3; ++d) {
      const double apart = p[d] - query[d];
      sum = fma(apart, apart, sum);
    }
    return sum;
  }
};

__device__ WideSearch wide_search(const SearchBatch& batch, int64_t query) {
  const int64_t b = query / batch.queries_per_cloud;
  const int64_t n = batch.lengths ? batch.lengths[b] : batch.points;
  assert(n >= 0 && n <= batch.points && "lengths: a cloud is longer than xyz");
  return {static_cast<const double*>(batch.xyz) + 3 * b * batch.points,
          static_cast<const double*>(batch.queries) + 3 * query, static_cast<int>(n)};
}

__device__ int64_t query_of_thread() { return int64_t{blockIdx.x} * kThreads + threadIdx.x; }

__global__ void __launch_bounds__(kThreads)
    find_ball_wide(SearchBatch batch, double inner, double limit, int k, int32_t* rows,
                   int32_t* found) {
  const int64_t center = query_of_thread();
  if (center >= batch.batch * batch.queries_per_cloud) return;
  const WideSearch search = wide_search(batch, center);
  int32_t* const list = rows + center * k;
  int hits = 0;
  for (int row = 0; row < search.n && hits < k; ++row) {
    const double squared = search.squared(row);
    if (squared < limit && (squared >= inner || squared == 0)) list[hits++] = row;
  }
  for (int place = hits; place < k; ++place) list[place] = hits > 0 ? list[0] : 0;
  found[center] = hits;
}

__global__ void __launch_bounds__(kThreads)
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

LaunchShape shape_of(const SearchBatch& batch) {
  const int64_t queries = batch.batch * batch.queries_per_cloud;
  return {static_cast<unsigned>((queries + kThreads - 1) / kThreads), kThreads};
}

}  // namespace

int ball_query_wide(const SearchBatch& batch, double inner, double limit, int k, int32_t* rows,
                    int32_t* found, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  return launch(find_ball_wide, shape_of(batch), stream, batch, inner, limit, k, rows, found);
}

int nearest_wide(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows,
                 double* squared, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  return launch(find_nearest_wide, shape_of(batch), stream, batch, query_lengths, rows, squared);
}

}  // namespace farpoint::cuda
