// Interpolation of three corners and its two derivatives with rows in shared memory.
//
// The corners of a point, which most interpolations have three of, stay in registers, and a block
// holds rows of features, or of their sums, in shared memory: each is read or written once.
// Products are rounded before they are added, as on the CPU.
#pragma once

#include "cuda/gather/rows.cuh"
#include "cuda/interpolate/interpolate.h"

namespace farpoint::cuda {

constexpr int kMostThreads = 1024;
constexpr int kCorners = 3;  // that a thread holds
constexpr int kDotThreads = 512;

__device__ inline float add_product(float sum, float a, float b) {
  return __fadd_rn(sum, __fmul_rn(a, b));
}
__device__ inline double add_product(double sum, double a, double b) {
  return __dadd_rn(sum, __dmul_rn(a, b));
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

}  // namespace farpoint::cuda
