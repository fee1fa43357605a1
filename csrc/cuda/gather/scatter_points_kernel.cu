// Scatter-add kernels for any shape, atomic or in a fixed order, and the choice of the method:
// out[b, c, idx[b, j]] += values[b, c, j], the derivative of gather.
//
// 1. Atomics, one thread per sample: the index is read once for a run of channels, the values are
//    read coalesced, and a reduction whose result nobody reads does not wait for memory.
// 2. In a fixed order: the samples of each point stand together once the indices are sorted, so a
//    thread per sample that begins such a run adds it up and stores it. No atomics.
#include "cuda/gather/rows.cuh"
#include "cuda/gather/scatter.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChannelsPerBlock = 16;
constexpr int64_t kSectorChannels = 8;  // fewer leave vector reductions half empty

// The samples and channels of one block.
struct Part {
  int64_t b;
  int64_t j;
  int64_t channel;
  int64_t channel_end;
};

__device__ Part part_of(const GatherShape& shape) {
  const int64_t sample_tiles = ceil_div(shape.samples, kThreads);
  const int64_t channel_tiles = ceil_div(shape.channels, kChannelsPerBlock);
  const int64_t tile = blockIdx.x / sample_tiles;
  const int64_t channel = tile % channel_tiles * kChannelsPerBlock;
  return {tile / channel_tiles, blockIdx.x % sample_tiles * kThreads + threadIdx.x, channel,
          min(channel + kChannelsPerBlock, shape.channels)};
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads)
    add_atomically(const Value* values, const Index* idx, Value* out, GatherShape shape) {
  const Part part = part_of(shape);
  if (part.j >= shape.samples) return;
  const int64_t i = checked(idx[part.b * shape.samples + part.j], shape.points);
  for (int64_t c = part.channel; c < part.channel_end; ++c) {
    const int64_t row = part.b * shape.channels + c;
    atomicAdd(&out[row * shape.points + i], values[row * shape.samples + part.j]);
  }
}

LaunchShape launch_shape(const GatherShape& shape) {
  const int64_t blocks =
      shape.batch * ceil_div(shape.channels, kChannelsPerBlock) * ceil_div(shape.samples, kThreads);
  return {static_cast<unsigned>(blocks), kThreads};
}

template <typename Value, typename Index>
int add_as(const void* values, const void* idx, void* out, const GatherShape& shape, void* stream) {
  return launch(add_atomically<Value, Index>, launch_shape(shape), stream,
                static_cast<const Value*>(values), static_cast<const Index*>(idx),
                static_cast<Value*>(out), shape);
}

bool is_empty(const GatherShape& shape) {
  return shape.batch * shape.channels * shape.samples == 0;
}

}  // namespace

// Rows need a block for every other processor at least, and vectors enough samples to be worth
// turning the output.
ScatterMethod scatter_method(const GatherShape& shape, bool wide_value, int device) {
  const int64_t processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const bool busy = 2 * shape.batch * shape.channels >= processors;
  if (busy && scatter_fits(ScatterMethod::kRows, shape, wide_value, device)) {
    return ScatterMethod::kRows;
  }
  const bool worth_turning = shape.channels >= kSectorChannels && shape.samples >= shape.points;
  return worth_turning && !wide_value ? ScatterMethod::kVectors : ScatterMethod::kAtomic;
}

int scatter_add(const void* values, const void* idx, void* out, const GatherShape& shape,
                ScatterTypes types, void* stream) {
  if (is_empty(shape)) return cudaSuccess;
  const auto run = types.wide_value
                       ? (types.wide_index ? add_as<double, int64_t> : add_as<double, int32_t>)
                       : (types.wide_index ? add_as<float, int64_t> : add_as<float, int32_t>);
  return run(values, idx, out, shape, stream);
}

}  // namespace farpoint::cuda
