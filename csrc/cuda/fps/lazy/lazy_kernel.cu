// Farthest point sampling with lazy distance updates: one persistent cooperative launch, any size,
// exact.
//
// 1. A sample needs the farthest of all points, so each step of the grid kernel touches every point
// and
//    crosses the whole device twice.
// 2. Distances only ever fall. Keep the points whose key is at least some threshold, the head, in
//    the registers of one block: while the head's best is still at or above the threshold it is the
//    best of the cloud, ties included, and no other point need be looked at.
// 3. When it falls below, all blocks apply the samples taken since to their points, find the next
//    threshold with a radix select, and collect the next head: three barriers for all of them.
// 4. A sample matters only to points nearer to it than their distance, so tiles of 512 points and
//    warps of 32 are tested by their boxes first. Along a Morton curve (lazy_sorted) the boxes are
//    small and nearly all tests fail; in the order of the caller (lazy) they add a tenth to the
//    instructions.
// 5. The first samples would each end a round, so they are taken as the grid kernel
//    takes them.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"
#include "cuda/fps/lazy/begin.cuh"
#include "cuda/fps/lazy/round.cuh"

namespace farpoint::cuda {
namespace lazy {
namespace {

constexpr int kPlainSamples = 16;
constexpr int kLargeCloud = 32768;  // points from which fewer rounds are worth a slower head

// How the blocks of a launch share the clouds of a batch.
struct WorkSplit {
  int groups;
  int blocks;  // of a group
};

__device__ void sample_cloud(Worker& w, const int64_t* order, int limit) {
  load_tiles(w, order);
  w.shared.group.sync();
  int k = 0;
  while (k < kPlainSamples && plain_step(w, k)) ++k;
  if (k < kPlainSamples) return finish_early(w, k);
  Window window = window_below(__ldcg(&w.state().words[k % kTurns]) + 1);
  for (int flushed = k; k != kFinished; k = __ldcg(&w.state().emitted)) {
    const int pending = k - flushed;
    load_pending(w, flushed, k);
    flushed = k;
    flush_and_count(w, pending, window);
    const Choice choice = find_threshold(w, window, limit);
    collect(w, choice.threshold);
    if (w.leads()) lead(w, choice, k);
    w.shared.group.sync();
    window = window_below(choice.threshold);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    sample_lazily(FpsBatch batch, Scratch scratch, const int64_t* order, WorkSplit split,
                  int head_points) {
  auto& shared = shared_as<Shared>();
  const int own = blockIdx.x / split.blocks;
  if (threadIdx.x == 0) {
    shared.group = {scratch.arrived + own, 0, static_cast<unsigned>(split.blocks),
                    blockIdx.x % split.blocks};
  }
  for (int b = own; b < batch.clouds; b += split.groups) {
    __syncthreads();
    if (threadIdx.x == 0) shared.cloud = cloud_of(batch, b);
    __syncthreads();
    if (shared.cloud.m == 0) continue;
    Worker worker = {shared, scratch, own, b, 0};
    sample_cloud(worker, order, head_points);
  }
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// As many blocks for each cloud as there are tiles, or as the device has room for.
WorkSplit divide(const FpsBatch& batch, int device) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int tiles = ceil_div(batch.max_points, kThreads);
  const int blocks = std::max(1, std::min(tiles, processors / batch.clouds));
  const int groups = std::min(batch.clouds, processors / blocks);
  return {groups, blocks};
}

size_t align(size_t bytes) { return (bytes + 15) / 16 * 16; }

struct Layout {
  size_t arrived, heads, points, nearest, end;
};

Layout layout_of(const FpsBatch& batch, const WorkSplit& split) {
  Layout at;
  at.arrived = align(batch.clouds * sizeof(CloudState));
  at.heads = at.arrived + align(split.groups * sizeof(unsigned));
  at.points = at.heads + split.groups * sizeof(HeadList);
  at.nearest = at.points + batch.rows * sizeof(float4);
  at.end = at.nearest + batch.rows * sizeof(float);
  return at;
}

Scratch scratch_in(char* memory, const Layout& at) {
  return {reinterpret_cast<CloudState*>(memory), reinterpret_cast<unsigned*>(memory + at.arrived),
          reinterpret_cast<HeadList*>(memory + at.heads),
          reinterpret_cast<float4*>(memory + at.points),
          reinterpret_cast<float*>(memory + at.nearest)};
}

}  // namespace
}  // namespace lazy

size_t fps_lazy_scratch(const FpsBatch& batch, int device) {
  return lazy::layout_of(batch, lazy::divide(batch, device)).end;
}

int fps_lazy_head_points(const FpsBatch& batch) {
  return batch.max_points > lazy::kLargeCloud ? lazy::kMaxHead : lazy::kSmallHead;
}

int fps_lazy(const FpsBatch& batch, int head_points, void* scratch, const int64_t* order,
             int device, void* stream) {
  const lazy::WorkSplit split = lazy::divide(batch, device);
  const lazy::Layout at = lazy::layout_of(batch, split);
  const int code = cudaMemsetAsync(scratch, 0, at.heads, static_cast<cudaStream_t>(stream));
  if (code) return code;
  LaunchShape shape = {static_cast<unsigned>(split.groups * split.blocks), lazy::kThreads,
                       sizeof(lazy::Shared)};
  shape.cooperative = true;
  return launch(lazy::sample_lazily, shape, stream, batch,
                lazy::scratch_in(static_cast<char*>(scratch), at), order, split, head_points);
}

}  // namespace farpoint::cuda
