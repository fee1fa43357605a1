// Kernels of an interpolation and of its derivative in the weights. Blocks hold rows of features in
// shared memory, each read once; products are rounded before they are added, and sums over channels
// keep their order, as on the CPU.
#include "cuda/gather/rows.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kMostThreads = 1024;

// A thread holds the three corners of its point in registers.
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
    const auto corners = columns_at<kCorners>(idx + point * kCorners, columns);
    const auto weights = vector_at<kCorners>(weight + point * kCorners);
    for (int r = 0; r < rows; ++r) {
      Value sum = 0;
#pragma unroll
      for (int k = 0; k < kCorners; ++k) {
        sum += product(weights.at[k], held[r * columns + corners.at[k]]);
      }
      out[(first_row + r) * shape.points + n] = sum;
    }
  }
}

constexpr int kDotThreads = 512;
template <typename Value>
constexpr int kMostPoints = 16 / sizeof(Value);  // of a thread
constexpr int kThreads = 256;                    // of the kernel for any corners

// How the derivative goes over the rows of features, and how many points a thread has.
struct DotTiling {
  int rows_at_once, points;
  int64_t tiles;  // of a cloud's points

  __host__ __device__ int tile() const { return points * kDotThreads; }
};

// All channels in turn, so that their sum keeps its order: the block's points stay in registers.
// Columns and sums go through shared memory, so that neighboring threads move neighboring words.
template <typename Value, typename Index>
__global__ void __launch_bounds__(kDotThreads, 2)
    correlate_rows(const Value* values, const Value* features, const Index* idx, Value* out,
                   InterpolateShape shape, DotTiling tiling) {
  constexpr int kMost = kMostPoints<Value>;
  Value* const held = &shared_as<Value>();
  int* const held_columns = &shared_as<int>();
  const int64_t b = blockIdx.x / tiling.tiles, first = blockIdx.x % tiling.tiles * tiling.tile();
  const int points = static_cast<int>(min(shape.points - first, int64_t{tiling.tile()}));
  const int columns = static_cast<int>(shape.columns), thread = static_cast<int>(threadIdx.x);
  const int64_t corner = (b * shape.points + first) * kCorners;
  for (int i = thread; i < points * kCorners; i += kDotThreads) {
    held_columns[i] = static_cast<int>(checked(idx[corner + i], columns));
  }
  __syncthreads();
  Vector<int, kCorners> corners[kMost];
  Vector<Value, kCorners> sums[kMost] = {};
#pragma unroll
  for (int p = 0; p < kMost && p * kDotThreads + thread < points; ++p) {
    corners[p] = vector_at<kCorners>(held_columns + (p * kDotThreads + thread) * kCorners);
  }
  const Value* source = features + b * shape.channels * columns;
  const Value* given = values + b * shape.channels * shape.points + first + thread;
  const auto load = [&](Value* to) {
#pragma unroll
    for (int p = 0; p < kMost && p * kDotThreads + thread < points; ++p) {
      to[p] = given[p * kDotThreads];
    }
  };
  Value next[kMost];
  int left = static_cast<int>(shape.channels);
  if (left > 0) load(next);
  while (left > 0) {
    const int size = min(tiling.rows_at_once, left) * columns;
    __syncthreads();
#pragma unroll 8
    for (int i = thread; i < size; i += kDotThreads) held[i] = source[i];
    __syncthreads();
    source += size;
    for (int row = 0; row < size; row += columns) {
      Value value[kMost];  // of this row; those of the next are on their way
#pragma unroll
      for (int p = 0; p < kMost; ++p) value[p] = next[p];
      given += shape.points;
      left -= 1;
      if (left > 0) load(next);
#pragma unroll
      for (int p = 0; p < kMost && p * kDotThreads + thread < points; ++p) {
#pragma unroll
        for (int k = 0; k < kCorners; ++k) {
          sums[p].at[k] += product(value[p], held[row + corners[p].at[k]]);
        }
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int p = 0; p < kMost && p * kDotThreads + thread < points; ++p) {
#pragma unroll
    for (int k = 0; k < kCorners; ++k) {
      held[(p * kDotThreads + thread) * kCorners + k] = sums[p].at[k];
    }
  }
  __syncthreads();
  for (int i = thread; i < points * kCorners; i += kDotThreads) out[corner + i] = held[i];
}

// Any number of corners, a thread for each.
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
    sum += product(values[row * shape.points + n], features[row * shape.columns + column]);
  }
  out[place] = sum;
}

// As the tiles of rows.cuh: the least bytes of the busiest processor. Many points of a block read
// the features seldom, and leave few blocks.
template <typename Value>
DotTiling dot_tiling(const InterpolateShape& shape, int64_t row_bytes, int device) {
  const int64_t processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int64_t rows = std::clamp<int64_t>(kStagedBytes / std::max<int64_t>(row_bytes, 1), 1,
                                           std::max<int64_t>(shape.channels, 1));
  DotTiling best = {};
  int64_t least = INT64_MAX;
  for (int points = 1; points <= kMostPoints<Value>; ++points) {
    DotTiling tiling = {static_cast<int>(rows), points, 0};
    tiling.tiles = ceil_div(shape.points, tiling.tile());
    const int64_t blocks = ceil_div(shape.batch * tiling.tiles, processors);
    const int64_t bytes =
        blocks * shape.channels * (row_bytes + tiling.tile() * int64_t{sizeof(Value)});
    if (bytes >= least) continue;
    least = bytes;
    best = tiling;
  }
  return best;
}

}  // namespace

bool interpolate_fits(const InterpolateShape& shape, RowTypes types, int device) {
  const int64_t row_bytes = shape.columns * (types.wide_value ? 8 : 4);
  return shape.corners == kCorners &&
         row_bytes <= device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

int interpolate(const void* features, const void* idx, const void* weight, void* out,
                const InterpolateShape& shape, RowTypes types, int device, void* stream) {
  if (shape.batch * shape.channels * shape.points == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    const int64_t row_bytes = shape.columns * int64_t{sizeof(Value)};
    const RowTiling tiling =
        row_tiling({shape.batch, shape.channels, shape.points, row_bytes,
                    kCorners * int64_t{sizeof(Index) + sizeof(Value)}, sizeof(Value), kMostThreads},
                   device);
    const LaunchShape by_rows = {tiling.blocks, tiling.threads,
                                 static_cast<size_t>(tiling.rows * row_bytes)};
    return launch(weigh_rows<Value, Index>, by_rows, stream, features, idx,
                  static_cast<const Value*>(weight), out, shape, tiling);
  });
}

int interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                    const InterpolateShape& shape, RowTypes types, int device, void* stream) {
  const int64_t weights = shape.batch * shape.points * shape.corners;
  if (weights == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    using Value = decltype(value);
    using Index = decltype(index);
    const int64_t row_bytes = shape.columns * int64_t{sizeof(Value)};
    const DotTiling tiling = dot_tiling<Value>(shape, row_bytes, device);
    const int64_t apart = int64_t{tiling.tile()} * kCorners * 32;  // a sector for each corner
    if (row_bytes > apart || !interpolate_fits(shape, types, device)) {
      const LaunchShape by_weight = {ceil_div(weights, kThreads), kThreads};
      return launch(correlate<Value, Index>, by_weight, stream, values, features, idx, out, shape);
    }
    const LaunchShape by_point = {
        static_cast<unsigned>(shape.batch * tiling.tiles), kDotThreads,
        static_cast<size_t>(std::max<int64_t>(tiling.rows_at_once * row_bytes,
                                              tiling.tile() * kCorners * sizeof(Value)))};
    return launch(correlate_rows<Value, Index>, by_point, stream, values, features, idx, out, shape,
                  tiling);
  });
}

}  // namespace farpoint::cuda
