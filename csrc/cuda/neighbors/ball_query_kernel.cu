// Ball query kernel: a warp looks at 32 rows at once, in order, and stops when its list is full.
// The classic kernel gives a center to a thread, so that a warp runs as long as its slowest center.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/search.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kCentersPerBlock = kThreads / kWarp;

__global__ void __launch_bounds__(kThreads)
    find_ball(SearchBatch batch, float inner, float limit, int k, int32_t* rows, int32_t* found) {
  const int64_t center = int64_t{blockIdx.x} * kCentersPerBlock + warp_id();
  if (center >= batch.batch * batch.queries_per_cloud) return;
  const SearchCloud cloud = search_cloud(batch, center / batch.queries_per_cloud);
  const Point c = query_point(batch, center);
  int32_t* const list = rows + center * k;
  int hits = 0;
  int32_t first = 0;
  for (int begin = 0; begin < cloud.n && hits < k; begin += kWarp) {
    const int row = begin + lane_id();
    // A distance to or from what is not finite is infinite or NaN, so never less.
    const float squared = row < cloud.n ? squared_distance(load_point(cloud.xyz, row), c) : limit;
    const bool inside = squared < limit && (squared >= inner || squared == 0);
    const unsigned votes = __ballot_sync(kAllLanes, inside);
    if (hits == 0 && votes != 0) first = begin + __ffs(votes) - 1;
    const int place = hits + __popc(votes & lanes_below());
    if (inside && place < k) list[place] = row;
    hits += __popc(votes);
  }
  hits = min(hits, k);
  for (int place = hits + lane_id(); place < k; place += kWarp) list[place] = first;
  if (lane_id() == 0) found[center] = hits;
}

}  // namespace

int ball_query(const SearchBatch& batch, float inner, float limit, int k, int32_t* rows,
               int32_t* found, void* stream) {
  const int64_t centers = batch.batch * batch.queries_per_cloud;
  if (centers == 0) return cudaSuccess;
  const int64_t blocks = (centers + kCentersPerBlock - 1) / kCentersPerBlock;
  const LaunchShape shape = {static_cast<unsigned>(blocks), kThreads};
  return launch(find_ball, shape, stream, batch, inner, limit, k, rows, found);
}

}  // namespace farpoint::cuda
