// Weighted interpolation kernel. A block holds rows of features in shared memory, each read once,
// and a thread the three corners of its point in registers. Products are rounded before they are
// added, as on the CPU.
#include "cuda/gather/rows.cuh"
#include "cuda/interpolate/interpolate.h"

namespace farpoint::cuda {
namespace {

constexpr int kMostThreads = 1024;

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
    const LaunchShape by_rows = {static_cast<unsigned>(tiling.blocks), tiling.threads,
                                 static_cast<size_t>(tiling.rows * row_bytes)};
    return launch(weigh_rows<Value, Index>, by_rows, stream, static_cast<const Value*>(features),
                  static_cast<const Index*>(idx), static_cast<const Value*>(weight),
                  static_cast<Value*>(out), shape, tiling);
  });
}

}  // namespace farpoint::cuda
