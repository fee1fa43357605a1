// Ball query kernel: a warp looks at 32 rows at once, in order, and stops when its list is full.
// The classic kernel gives a center to a thread, so that a warp runs as long as its slowest center.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/spatial_index.cuh"
#include "cuda/neighbors/warp_list.cuh"

namespace farpoint::cuda {
namespace {

__global__ void __launch_bounds__(kSearchThreads)
    find_ball(SearchBatch batch, Shell<float> shells, int k, int32_t* rows, int32_t* found) {
  const int64_t center = int64_t{blockIdx.x} * kQueriesPerBlock + warp_id();
  if (center >= batch.batch * batch.queries_per_cloud) return;
  const int64_t b = center / batch.queries_per_cloud;
  const SearchCloud cloud = search_cloud(batch, b);
  const auto shell = shell_of(shells, b);
  const Ball ball = {query_point(batch, center), shell.inner, shell.limit};
  BallList list = {rows + center * k, k};
  list.scan(ball, cloud);
  list.finish(found + center);
}

// The lowest rows inside a ball, from row `floor` on, as keys.
template <int kDepth>
struct LowestRows {
  Ball ball;
  Key floor;
  int size;
  Key limit = kNoKey;
  WarpList<kDepth> list = {};

  __device__ bool admits(unsigned bits) const { return bits < __float_as_uint(ball.limit); }
  __device__ void offer(PointRow p) {
    const int row = row_of(p);
    const bool inside = row != kNoRow && ball.holds(point_of(p));
    list.offer(inside && Key(row) >= floor ? Key(row) : kNoKey, limit, size);
  }
};

// Many balls are full after a few rows; only the others are worth the way to their leaves.
template <int kDepth>
__global__ void __launch_bounds__(kSearchThreads, kSearchBlocks)
    find_ball_indexed(SearchBatch batch, SpatialIndex index, Shell<float> shells, int k,
                      int32_t* rows, int32_t* found) {
  constexpr int kFirstRows = 512;
  const WarpQuery query = warp_query(batch);
  if (!query.exists) return;
  const SearchCloud cloud = search_cloud(batch, query.b);
  const auto shell = shell_of(shells, query.b);
  const Ball ball = {query_point(batch, query.number), shell.inner, shell.limit};
  BallList list = {rows + query.number * k, k};
  list.scan(ball, {cloud.xyz, min(cloud.n, kFirstRows)});
  Key floor = kFirstRows;
  while (list.hits < k && floor < static_cast<unsigned>(cloud.n)) {
    LowestRows<kDepth> goal = {ball, floor, min(kDepth * kWarp, k - list.hits)};
    goal.list.clear();
    search(indexed_cloud(batch, index, query.b), ball.center, goal);
    const Key highest = goal.list.highest(goal.size);
    floor = highest == kNoKey ? kNoKey : highest + 1;
#pragma unroll
    for (int s = 0; s < kDepth; ++s) {
      const Key key = goal.list.at[s];
      list.append(static_cast<int32_t>(key), s * kWarp + lane_id() < goal.size && key != kNoKey);
    }
  }
  list.finish(found + query.number);
}

__global__ void __launch_bounds__(kWideThreads)
    find_ball_wide(SearchBatch batch, Shell<double> shells, int k, int32_t* rows, int32_t* found) {
  const int64_t center = query_of_thread();
  if (center >= batch.batch * batch.queries_per_cloud) return;
  const WideSearch search = wide_search(batch, center);
  const auto shell = shell_of(shells, center / batch.queries_per_cloud);
  int32_t* const list = rows + center * k;
  int hits = 0;
  for (int row = 0; row < search.n && hits < k; ++row) {
    const double squared = search.squared(row);
    if (squared < shell.limit && (squared >= shell.inner || squared == 0)) list[hits++] = row;
  }
  for (int place = hits; place < k; ++place) list[place] = hits > 0 ? list[0] : 0;
  found[center] = hits;
}

}  // namespace

int ball_query(const SearchBatch& batch, const Shell<float>& shells, int k, int32_t* rows,
               int32_t* found, int device, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  const LaunchShape shape = search_shape(batch);
  if (!batch.index) return launch(find_ball, shape, stream, batch, shells, k, rows, found);
  SpatialIndex index;
  if (const int code = build_index(batch, index, device, stream)) return code;
  const auto kernel = k <= kWarp ? find_ball_indexed<1> : find_ball_indexed<4>;
  return launch(kernel, shape, stream, batch, index, shells, k, rows, found);
}

int ball_query_wide(const SearchBatch& batch, const Shell<double>& shells, int k, int32_t* rows,
                    int32_t* found, void* stream) {
  if (batch.batch * batch.queries_per_cloud == 0) return cudaSuccess;
  return launch(find_ball_wide, wide_shape(batch), stream, batch, shells, k, rows, found);
}

}  // namespace farpoint::cuda
