// Weighted interpolation kernel and the kernels of its two derivatives.
//
// A thread owns a point and runs over a tile of channels: the indices and weights stay in L1
// between channels, rows of values are read and written coalesced, and all threads of a block look
// into the same row of features at a time. Products are rounded before they are added, as on the
// CPU.
#include <cassert>

#include "cuda/common/device.cuh"
#include "cuda/common/launch.cuh"
#include "cuda/interpolate/interpolate.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChannelsPerBlock = 16;

__device__ float add_product(float sum, float a, float b) {
  return __fadd_rn(sum, __fmul_rn(a, b));
}
__device__ double add_product(double sum, double a, double b) {
  return __dadd_rn(sum, __dmul_rn(a, b));
}

template <typename Index>
__device__ int64_t checked(Index i, int64_t columns) {
  assert(i >= 0 && i < columns && "idx: an index is out of range");
  return i;
}

struct Part {
  int64_t b, n;
  int64_t channel, channel_end;
};

__host__ __device__ int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

__device__ Part part_of(const InterpolateShape& shape) {
  const int64_t point_tiles = ceil_div(shape.points, kThreads);
  const int64_t channel_tiles = ceil_div(shape.channels, kChannelsPerBlock);
  const int64_t tile = blockIdx.x / point_tiles;
  const int64_t channel = tile % channel_tiles * kChannelsPerBlock;
  return {tile / channel_tiles, blockIdx.x % point_tiles * kThreads + threadIdx.x, channel,
          min(channel + kChannelsPerBlock, shape.channels)};
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads)
    weigh(const Value* features, const Index* idx, const Value* weight, Value* out,
          InterpolateShape shape) {
  const Part part = part_of(shape);
  if (part.n >= shape.points) return;
  const int64_t first = (part.b * shape.points + part.n) * shape.corners;
  for (int64_t c = part.channel; c < part.channel_end; ++c) {
    const int64_t row = part.b * shape.channels + c;
    Value sum = 0;
    for (int64_t k = 0; k < shape.corners; ++k) {
      const int64_t column = checked(idx[first + k], shape.columns);
      sum = add_product(sum, weight[first + k], features[row * shape.columns + column]);
    }
    out[row * shape.points + part.n] = sum;
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads)
    spread(const Value* values, const Index* idx, const Value* weight, Value* out,
           InterpolateShape shape) {
  const Part part = part_of(shape);
  if (part.n >= shape.points) return;
  const int64_t first = (part.b * shape.points + part.n) * shape.corners;
  for (int64_t c = part.channel; c < part.channel_end; ++c) {
    const int64_t row = part.b * shape.channels + c;
    const Value value = values[row * shape.points + part.n];
    for (int64_t k = 0; k < shape.corners; ++k) {
      const int64_t column = checked(idx[first + k], shape.columns);
      atomicAdd(&out[row * shape.columns + column], value * weight[first + k]);
    }
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads)
    correlate(const Value* values, const Value* features, const Index* idx, Value* out,
              InterpolateShape shape) {
  const int64_t place = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (place >= shape.batch * shape.points * shape.corners) return;
  const int64_t point = place / shape.corners;
  const int64_t b = point / shape.points;
  const int64_t n = point % shape.points;
  const int64_t column = checked(idx[place], shape.columns);
  Value sum = 0;
  for (int64_t row = b * shape.channels; row < (b + 1) * shape.channels; ++row) {
    sum = add_product(sum, values[row * shape.points + n], features[row * shape.columns + column]);
  }
  out[place] = sum;
}

LaunchShape by_tile(const InterpolateShape& shape) {
  const int64_t blocks =
      shape.batch * ceil_div(shape.channels, kChannelsPerBlock) * ceil_div(shape.points, kThreads);
  return {static_cast<unsigned>(blocks), kThreads};
}

LaunchShape by_weight(const InterpolateShape& shape) {
  const int64_t weights = shape.batch * shape.points * shape.corners;
  return {static_cast<unsigned>(ceil_div(weights, kThreads)), kThreads};
}

template <typename To>
const To* as(const void* p) {
  return static_cast<const To*>(p);
}

// Calls run(Value{}, Index{}).
template <typename Run>
int with_types(InterpolateTypes types, Run run) {
  if (types.wide_value) return types.wide_index ? run(double{}, int64_t{}) : run(double{}, int{});
  return types.wide_index ? run(float{}, int64_t{}) : run(float{}, int{});
}

}  // namespace

int interpolate(const void* features, const void* idx, const void* weight, void* out,
                const InterpolateShape& shape, InterpolateTypes types, void* stream) {
  if (shape.batch * shape.channels * shape.points == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    return launch(weigh<Value, Index>, by_tile(shape), stream, as<Value>(features), as<Index>(idx),
                  as<Value>(weight), static_cast<Value*>(out), shape);
  });
}

int interpolate_scatter(const void* values, const void* idx, const void* weight, void* out,
                        const InterpolateShape& shape, InterpolateTypes types, void* stream) {
  if (shape.batch * shape.channels * shape.points == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    return launch(spread<Value, Index>, by_tile(shape), stream, as<Value>(values), as<Index>(idx),
                  as<Value>(weight), static_cast<Value*>(out), shape);
  });
}

int interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                    const InterpolateShape& shape, InterpolateTypes types, void* stream) {
  if (shape.batch * shape.points * shape.corners == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    return launch(correlate<Value, Index>, by_weight(shape), stream, as<Value>(values),
                  as<Value>(features), as<Index>(idx), static_cast<Value*>(out), shape);
  });
}

}  // namespace farpoint::cuda
