// Scatter-add kernel with vector atomics, into sums whose channels are contiguous (channel-last).
//
// 1. Channel-first, the 32 values of a warp go to 32 sectors: 32 transactions of one value each.
// 2. Point by point, the channels of one value's point stand together. A block turns a tile of 32
//    samples and 32 channels in shared memory, and a quarter of a warp adds the 32 channels of a
//    sample with one vector reduction per thread: 4 sectors instead of 32.
// The caller turns the sums back, which costs one more pass over the output.
#include "cuda/gather/rows.cuh"
#include "cuda/gather/scatter.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 32;
constexpr int kLanesPerSample = kSide / 4;
static_assert(kThreads / kLanesPerSample == kSide);

struct Tile {
  float at[kSide][kSide + 1];  // channel, sample; a column is free of bank conflicts
};

// Samples [first, first + 32) of channels [channel, channel + 32); 0 outside.
__device__ void load(Tile& tile, const float* values, int64_t first, int64_t channel,
                     const GatherShape& shape) {
  const int64_t j = first + lane_id();
  for (int c = warp_id(); c < kSide; c += kThreads / kWarp) {
    const bool held = j < shape.samples && channel + c < shape.channels;
    tile.at[c][lane_id()] = held ? values[(channel + c) * shape.samples + j] : 0.0f;
  }
}

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    add_vectors(const float* values, const Index* idx, float* sums, GatherShape shape,
                int64_t tiles, int64_t pitch) {
  auto& tile = shared_as<Tile>();
  const int64_t b = blockIdx.x / tiles;
  const int64_t first = blockIdx.x % tiles * kSide;
  const int sample = static_cast<int>(threadIdx.x) / kLanesPerSample;
  const int quad = static_cast<int>(threadIdx.x) % kLanesPerSample * 4;
  const int64_t j = first + sample;
  const bool held = j < shape.samples;
  const int64_t point = held ? checked(idx[b * shape.samples + j], shape.points) : 0;
  float* const target = sums + (b * shape.points + point) * pitch + quad;
  const float* const from = values + b * shape.channels * shape.samples;
  for (int64_t channel = 0; channel < shape.channels; channel += kSide) {
    __syncthreads();
    load(tile, from, first, channel, shape);
    __syncthreads();
    if (!held || channel + quad >= shape.channels) continue;
    add_four(target + channel, make_float4(tile.at[quad][sample], tile.at[quad + 1][sample],
                                           tile.at[quad + 2][sample], tile.at[quad + 3][sample]));
  }
}

}  // namespace

int scatter_vectors(const float* values, const void* idx, float* sums, const GatherShape& shape,
                    bool wide_index, void* stream) {
  if (shape.batch * shape.channels * shape.samples == 0) return cudaSuccess;
  const int64_t tiles = ceil_div(shape.samples, kSide);
  const int64_t pitch = scatter_pitch(shape.channels);
  const LaunchShape launch_shape = {static_cast<unsigned>(shape.batch * tiles), kThreads,
                                    sizeof(Tile)};
  if (wide_index) {
    return launch(add_vectors<int64_t>, launch_shape, stream, values,
                  static_cast<const int64_t*>(idx), sums, shape, tiles, pitch);
  }
  return launch(add_vectors<int32_t>, launch_shape, stream, values,
                static_cast<const int32_t*>(idx), sums, shape, tiles, pitch);
}

}  // namespace farpoint::cuda
