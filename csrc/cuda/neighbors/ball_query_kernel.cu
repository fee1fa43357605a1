// Ball query kernel: a warp looks at 32 rows at once, in order, and stops when its list is full.
// The classic kernel gives a center to a thread, so that a warp runs as long as its slowest center.
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"
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
  const Ball ball = {query_point(batch, center), inner, limit};
  BallList list = {rows + center * k, k};
  list.scan(ball, cloud);
  list.finish(found + center);
}

}  // namespace

int ball_query(const SearchBatch& batch, float inner, float limit, int k, int32_t* rows,
               int32_t* found, int device, void* stream) {
  const int64_t centers = batch.batch * batch.queries_per_cloud;
  if (centers == 0) return cudaSuccess;
  if (batch.index) {
    return ball_query_indexed(batch, inner, limit, k, rows, found, device, stream);
  }
  const int64_t blocks = (centers + kCentersPerBlock - 1) / kCentersPerBlock;
  const LaunchShape shape = {static_cast<unsigned>(blocks), kThreads};
  return launch(find_ball, shape, stream, batch, inner, limit, k, rows, found);
}

}  // namespace farpoint::cuda
