// Weighted interpolation kernel and the kernels of its two derivatives.
//
// A thread owns a point and runs over a tile of channels: the indices and weights stay in L1
// between channels, rows of values are read and written coalesced. But a corner's feature is 4
// useful bytes of a sector, and each sum back into it a transaction of its own: where they can,
// rows in shared memory take their place (interpolate_rows.cuh).
#include "cuda/interpolate/interpolate_rows.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChannelsPerBlock = 16;

struct Part {
  int64_t b, n;
  int64_t channel, channel_end;
};

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

// Rows of features, or of their sums, that fit into shared memory; and no processor should be idle
// for them, but for the few of the last wave.
bool held_in_rows(const InterpolateShape& shape, int64_t row_bytes, int64_t blocks, int device) {
  return shape.corners == kCorners &&
         row_bytes <= device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) &&
         2 * blocks >= device_attribute(cudaDevAttrMultiProcessorCount, device);
}

template <typename Value, typename Index>
RowTiling tiling_of(const InterpolateShape& shape, int64_t points_at_once, int device) {
  return row_tiling(
      {shape.batch, shape.channels, shape.points, shape.columns * int64_t{sizeof(Value)},
       kCorners * int64_t{sizeof(Index) + sizeof(Value)}, sizeof(Value), points_at_once},
      device);
}

LaunchShape by_rows(const RowTiling& tiling, int64_t row_bytes) {
  return {static_cast<unsigned>(tiling.blocks), tiling.threads,
          static_cast<size_t>(tiling.rows * row_bytes)};
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
                const InterpolateShape& shape, InterpolateTypes types, int device, void* stream) {
  if (shape.batch * shape.channels * shape.points == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    const int64_t row_bytes = shape.columns * int64_t{sizeof(Value)};
    const RowTiling tiling = tiling_of<Value, Index>(shape, kMostThreads, device);
    const auto *f = as<Value>(features), *w = as<Value>(weight);
    if (!held_in_rows(shape, row_bytes, tiling.blocks, device)) {
      return launch(weigh<Value, Index>, by_tile(shape), stream, f, as<Index>(idx), w,
                    static_cast<Value*>(out), shape);
    }
    return launch(weigh_rows<Value, Index>, by_rows(tiling, row_bytes), stream, f, as<Index>(idx),
                  w, static_cast<Value*>(out), shape, tiling);
  });
}

int interpolate_scatter(const void* values, const void* idx, const void* weight, void* out,
                        const InterpolateShape& shape, InterpolateTypes types, int device,
                        void* stream) {
  if (shape.batch * shape.channels * shape.columns == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    const int64_t row_bytes = shape.columns * int64_t{sizeof(Value)};
    const RowTiling tiling = tiling_of<Value, Index>(shape, 0, device);
    const auto *v = as<Value>(values), *w = as<Value>(weight);
    if (held_in_rows(shape, row_bytes, tiling.blocks, device)) {
      return launch(spread_rows<Value, Index>, by_rows(tiling, row_bytes), stream, v,
                    as<Index>(idx), w, static_cast<Value*>(out), shape, tiling);
    }
    const size_t bytes = shape.batch * shape.channels * row_bytes;
    const int code = cudaMemsetAsync(out, 0, bytes, static_cast<cudaStream_t>(stream));
    if (code || shape.points == 0) return code;
    return launch(spread<Value, Index>, by_tile(shape), stream, v, as<Index>(idx), w,
                  static_cast<Value*>(out), shape);
  });
}

int interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                    const InterpolateShape& shape, InterpolateTypes types, int device,
                    void* stream) {
  if (shape.batch * shape.points * shape.corners == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    const auto *v = as<Value>(values), *f = as<Value>(features);
    const int64_t row_bytes = shape.columns * int64_t{sizeof(Value)};
    const int64_t blocks = shape.batch * ceil_div(shape.points, kDotThreads);
    constexpr int64_t kApart = kDotThreads * kCorners * 32;  // a sector for each corner
    if (row_bytes > kApart || !held_in_rows(shape, row_bytes, blocks, device)) {
      return launch(correlate<Value, Index>, by_weight(shape), stream, v, f, as<Index>(idx),
                    static_cast<Value*>(out), shape);
    }
    const int64_t fitting = kStagedBytes / std::max<int64_t>(row_bytes, 1);
    const int64_t rows = std::max<int64_t>(1, std::min(fitting, shape.channels));
    const LaunchShape by_point = {static_cast<unsigned>(blocks), kDotThreads,
                                  static_cast<size_t>(rows * row_bytes)};
    return launch(correlate_rows<Value, Index>, by_point, stream, v, f, as<Index>(idx),
                  static_cast<Value*>(out), shape, static_cast<int>(rows));
  });
}

}  // namespace farpoint::cuda
