// Weighted interpolation kernel and the kernels of its two derivatives.
//
// 1. A thread owns a point and runs over a tile of channels: the indices and weights stay in L1
//    between channels, rows of values are read and written coalesced. But a corner's feature is 4
//    useful bytes of a sector, and each sum back into it a transaction of its own.
// 2. Three corners, which most interpolations have, stay in registers, and a block holds rows of
//    features, or of their sums, in shared memory: each is read or written once.
// Products are rounded before they are added, as on the CPU.
#include "cuda/gather/rows.cuh"
#include "cuda/interpolate/interpolate.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostThreads = 1024;
constexpr int kCorners = 3;  // that a thread holds
constexpr int kDotThreads = 512;
constexpr int kChannelsPerBlock = 16;

__device__ float add_product(float sum, float a, float b) {
  return __fadd_rn(sum, __fmul_rn(a, b));
}
__device__ double add_product(double sum, double a, double b) {
  return __dadd_rn(sum, __dmul_rn(a, b));
}

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

// Columns, or weights, of the corners of a point.
template <typename Value>
struct Corners {
  Value at[kCorners];
};

template <typename Index>
__device__ Corners<int> columns_of(const Index* idx, int64_t point, int64_t columns) {
  Corners<int> result;
#pragma unroll
  for (int k = 0; k < kCorners; ++k) {
    result.at[k] = static_cast<int>(checked(idx[point * kCorners + k], columns));
  }
  return result;
}

template <typename Value>
__device__ Corners<Value> weights_of(const Value* weight, int64_t point) {
  Corners<Value> result;
#pragma unroll
  for (int k = 0; k < kCorners; ++k) result.at[k] = weight[point * kCorners + k];
  return result;
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kMostThreads)
    weigh_rows(const Value* features, const Index* idx, const Value* weight, Value* out,
               InterpolateShape shape, RowTiling tiling) {
  const auto [b, channel, split, rows] = row_part(tiling, shape.channels);
  const int columns = static_cast<int>(shape.columns), threads = static_cast<int>(blockDim.x);
  const int64_t first_row = b * shape.channels + channel;
  Value* const held = &shared_as<Value>();
  const Value* const source = features + first_row * columns;
  for (int i = threadIdx.x; i < rows * columns; i += threads) held[i] = source[i];
  __syncthreads();
  for (int64_t n = split * threads + threadIdx.x; n < shape.points; n += tiling.splits * threads) {
    const int64_t point = b * shape.points + n;
    const auto corners = columns_of(idx, point, columns);
    const auto weights = weights_of(weight, point);
    for (int r = 0; r < rows; ++r) {
      Value sum = 0;
#pragma unroll
      for (int k = 0; k < kCorners; ++k) {
        sum = add_product(sum, weights.at[k], held[r * columns + corners.at[k]]);
      }
      out[(first_row + r) * shape.points + n] = sum;
    }
  }
}

// A tile is not shared: `tiling.splits` is 1.
template <typename Value, typename Index>
__global__ void __launch_bounds__(kMostThreads)
    spread_rows(const Value* values, const Index* idx, const Value* weight, Value* out,
                InterpolateShape shape, RowTiling tiling) {
  const auto [b, channel, split, rows] = row_part(tiling, shape.channels);
  const int columns = static_cast<int>(shape.columns), threads = static_cast<int>(blockDim.x);
  const int64_t first_row = b * shape.channels + channel;
  Value* const sums = &shared_as<Value>();
  for (int i = threadIdx.x; i < rows * columns; i += threads) sums[i] = 0;
  __syncthreads();
  for (int64_t n = threadIdx.x; n < shape.points; n += threads) {
    const int64_t point = b * shape.points + n;
    const auto corners = columns_of(idx, point, columns);
    const auto weights = weights_of(weight, point);
    for (int r = 0; r < rows; ++r) {
      const Value value = values[(first_row + r) * shape.points + n];
#pragma unroll
      for (int k = 0; k < kCorners; ++k) {
        atomicAdd(&sums[r * columns + corners.at[k]], value * weights.at[k]);
      }
    }
  }
  __syncthreads();
  Value* const target = out + first_row * columns;
  for (int i = threadIdx.x; i < rows * columns; i += threads) target[i] = sums[i];
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

// All channels in turn, so that their sum keeps its order: the block's points stay in registers.
template <typename Value, typename Index>
__global__ void __launch_bounds__(kDotThreads, 2)
    correlate_rows(const Value* values, const Value* features, const Index* idx, Value* out,
                   InterpolateShape shape, int rows_at_once) {
  Value* const held = &shared_as<Value>();
  const int64_t tiles = ceil_div(shape.points, kDotThreads), b = blockIdx.x / tiles;
  const int64_t n = blockIdx.x % tiles * kDotThreads + threadIdx.x;
  const int64_t point = b * shape.points + n;
  const int columns = static_cast<int>(shape.columns);
  const bool exists = n < shape.points;
  const auto corners = exists ? columns_of(idx, point, columns) : Corners<int>{};
  Corners<Value> sums = {};
  for (int64_t c = 0; c < shape.channels; c += rows_at_once) {
    const int64_t row = b * shape.channels + c;
    const int rows = static_cast<int>(min(int64_t{rows_at_once}, shape.channels - c));
    __syncthreads();
    for (int i = threadIdx.x; i < rows * columns; i += kDotThreads) {
      held[i] = features[row * columns + i];
    }
    __syncthreads();
    for (int r = 0; r < rows && exists; ++r) {
      const Value value = values[(row + r) * shape.points + n];
#pragma unroll
      for (int k = 0; k < kCorners; ++k) {
        sums.at[k] = add_product(sums.at[k], value, held[r * columns + corners.at[k]]);
      }
    }
  }
  for (int k = 0; k < kCorners && exists; ++k) out[point * kCorners + k] = sums.at[k];
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
