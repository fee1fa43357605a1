// Searches in a spatial index, a warp per query: what each of them keeps, and when it has enough.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
#include "cuda/neighbors/search.cuh"
#include "cuda/neighbors/spatial_index.cuh"
#include "cuda/neighbors/warp_list.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQueriesPerBlock = kThreads / kWarp;
constexpr int kBlocks = 4;  // on a processor; for a fifth, ptxas would spill long lists

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

// The query of the warp, and its cloud.
struct WarpQuery {
  int64_t b, number;
  bool exists;
};

__device__ WarpQuery warp_query(const SearchBatch& batch) {
  const int64_t number = int64_t{blockIdx.x} * kQueriesPerBlock + warp_id();
  return {number / batch.queries_per_cloud, number, number < batch.batch * batch.queries_per_cloud};
}

template <int kDepth>
__global__ void __launch_bounds__(kThreads, kBlocks)
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

// Many balls are full after a few rows; only the others are worth the way to their leaves.
template <int kDepth>
__global__ void __launch_bounds__(kThreads, kBlocks)
    find_ball_indexed(SearchBatch batch, SpatialIndex index, float inner, float limit, int k,
                      int32_t* rows, int32_t* found) {
  constexpr int kFirstRows = 512;
  const WarpQuery query = warp_query(batch);
  if (!query.exists) return;
  const SearchCloud cloud = search_cloud(batch, query.b);
  const Ball ball = {query_point(batch, query.number), inner, limit};
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

__global__ void __launch_bounds__(kThreads)
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

LaunchShape shape_of(const SearchBatch& batch) {
  const int64_t queries = batch.batch * batch.queries_per_cloud;
  return {static_cast<unsigned>((queries + kQueriesPerBlock - 1) / kQueriesPerBlock), kThreads};
}

}  // namespace

int knn_indexed(const SearchBatch& batch, int k, int32_t* rows, float* squared, int device,
                void* stream) {
  SpatialIndex index;
  if (const int code = build_index(batch, index, device, stream)) return code;
  const auto kernel = k <= kWarp ? find_neighbors_indexed<1> : find_neighbors_indexed<4>;
  return launch(kernel, shape_of(batch), stream, batch, index, k, rows, squared);
}

int ball_query_indexed(const SearchBatch& batch, float inner, float limit, int k, int32_t* rows,
                       int32_t* found, int device, void* stream) {
  SpatialIndex index;
  if (const int code = build_index(batch, index, device, stream)) return code;
  const auto kernel = k <= kWarp ? find_ball_indexed<1> : find_ball_indexed<4>;
  return launch(kernel, shape_of(batch), stream, batch, index, inner, limit, k, rows, found);
}

int nearest_indexed(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows,
                    float* squared, int device, void* stream) {
  SpatialIndex index;
  if (const int code = build_index(batch, index, device, stream)) return code;
  return launch(find_nearest_indexed, shape_of(batch), stream, batch, index, query_lengths, rows,
                squared);
}

}  // namespace farpoint::cuda
