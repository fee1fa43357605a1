// Farthest point sampling over the whole grid: one launch per sample, any size, any device.
//
// Each block folds its best into one 64-bit word per cloud with atomicMax: (distance bits, ~row),
// whose maximum is the farthest point, the lowest row on a tie, in any order of blocks. Of three
// words per cloud a step reads one, fills the next and clears the one after.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/fps/argmax.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/sample.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWords = 3;

struct State {
  Key* words;      // (kWords, clouds)
  int* emitted;    // (clouds)
  float* nearest;  // (rows): squared distance to the nearest sample
};

__host__ __device__ size_t header_bytes(int clouds) {
  return (static_cast<size_t>(clouds) * (kWords * sizeof(Key) + sizeof(int)) + 15) / 16 * 16;
}

State state_in(void* scratch, int clouds) {
  Key* const words = static_cast<Key*>(scratch);
  return {words, reinterpret_cast<int*>(words + kWords * clouds),
          reinterpret_cast<float*>(static_cast<char*>(scratch) + header_bytes(clouds))};
}

__device__ void offer(Key* word, Key mine) {
  mine = warp_largest(mine);
  if (lane_id() == 0 && distance_bits(mine) != 0) atomicMax(word, mine);
}

__global__ void __launch_bounds__(kThreads) begin(FpsBatch batch, State state, int blocks) {
  const int b = blockIdx.x / blocks;
  const Cloud cloud = cloud_of(batch, b);
  Key mine = 0;
  for (int row = blockIdx.x % blocks * kThreads + threadIdx.x; row < cloud.n;
       row += blocks * kThreads) {
    const Point p = cloud.point(row);
    state.nearest[cloud.first_row + row] = is_finite(p) ? infinity() : 0.0f;
    mine = larger(mine, first_key(p, row, cloud.start));
  }
  offer(&state.words[b], mine);
}

__global__ void __launch_bounds__(kThreads) step(FpsBatch batch, State state, int blocks, int k) {
  const int b = blockIdx.x / blocks;
  const int block = blockIdx.x % blocks;
  const Cloud cloud = cloud_of(batch, b);
  if (k >= cloud.m) return;
  const Key winner = state.words[k % kWords * batch.clouds + b];
  const bool writes = block == 0 && threadIdx.x == 0;
  if (writes) state.words[(k + 2) % kWords * batch.clouds + b] = 0;
  const bool ends = k > 0 && distance_of(winner) <= cloud.stop_squared;
  if (writes && ends) cloud.put_distance(k - 1, distance_of(winner));
  if (ends || distance_bits(winner) == 0) return;
  const int sample = row_of(winner);
  if (writes) {
    cloud.put_index(k, sample);
    if (k > 0) cloud.put_distance(k - 1, distance_of(winner));
    state.emitted[b] = k + 1;
  }
  if (cloud.is_done(k)) return;
  const Point s = cloud.point(sample);
  Key mine = 0;
  for (int row = block * kThreads + threadIdx.x; row < cloud.n; row += blocks * kThreads) {
    float* const nearest = &state.nearest[cloud.first_row + row];
    const float d = fminf(*nearest, squared_distance(cloud.point(row), s));
    *nearest = d;
    mine = larger(mine, key_of(d, row));
  }
  offer(&state.words[(k + 1) % kWords * batch.clouds + b], mine);
}

// Writes the last distance, then whatever has no positive distance left.
__global__ void __launch_bounds__(kThreads) finish_grid(FpsBatch batch, State state) {
  auto& shared = shared_as<TailShared>();
  const int b = blockIdx.x;
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  float* const nearest = state.nearest + cloud.first_row;
  const Key last = state.words[cloud.m % kWords * batch.clouds + b];
  const int found = state.emitted[b];
  const int emitted = found > 0 ? found : 1;
  if (threadIdx.x == 0) {
    if (found == 0) cloud.put_index(0, cloud.start);
    const bool full = found == cloud.m;
    const bool has_distance = cloud.ends_early() && found > 0 && !full;
    if (!has_distance) cloud.put_distance(emitted - 1, full ? distance_of(last) : 0.0f);
  }
  if (emitted == cloud.m) return;
  if (cloud.ends_early()) return clear_rest(cloud, emitted);
  __syncthreads();
  for (int k = threadIdx.x; k < emitted; k += kThreads) {
    nearest[cloud.indices[k] - cloud.index_base] = -1.0f;
  }
  __syncthreads();
  append_tail(cloud, emitted, shared, [&](int row) { return nearest[row] < 0.0f; });
}

// Enough blocks to fill the device, and at least a few rows for each thread.
int blocks_per_cloud(const FpsBatch& batch, int device) {
  constexpr int kRowsPerThread = 4;
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int useful =
      (batch.max_points + kRowsPerThread * kThreads - 1) / (kRowsPerThread * kThreads);
  const int affordable = std::max(1, 8 * processors / batch.clouds);
  return std::min(useful, affordable);
}

}  // namespace

size_t fps_grid_scratch(const FpsBatch& batch) {
  return header_bytes(batch.clouds) + static_cast<size_t>(batch.rows) * sizeof(float);
}

int fps_grid(const FpsBatch& batch, void* scratch, int device, void* stream) {
  const State state = state_in(scratch, batch.clouds);
  const int blocks = blocks_per_cloud(batch, device);
  const LaunchShape wide = {batch.clouds * blocks, kThreads};
  const LaunchShape narrow = {batch.clouds, kThreads, sizeof(TailShared)};
  int code =
      cudaMemsetAsync(scratch, 0, header_bytes(batch.clouds), static_cast<cudaStream_t>(stream));
  if (!code) code = launch(begin, wide, stream, batch, state, blocks);
  for (int k = 0; !code && k < batch.max_samples; ++k) {
    code = launch(step, wide, stream, batch, state, blocks, k);
  }
  return code ? code : launch(finish_grid, narrow, stream, batch, state);
}

}  // namespace farpoint::cuda
