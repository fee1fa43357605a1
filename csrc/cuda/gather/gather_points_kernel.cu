// Gather kernels: out[b, c, j] = features[b, c, idx[b, j]].
//
// A block holds a few rows in shared memory, read once, and serves all indices from there, four in
// turn of each thread. One read of an index serves all rows of the block. Rows too long for shared
// memory, or read too sparsely to be worth a copy, are read directly.
#include "cuda/gather/gather.h"
#include "cuda/gather/rows.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr int64_t kSamplesPerBlock = 4096;
constexpr int kSparse = 8;  // points per sample from which a copy of the row is waste

template <typename Value, typename Index, int kWidth, bool kStaged>
__global__ void __launch_bounds__(kMostThreads)
    gather_tile(const Value* features, const Index* idx, Value* out, GatherShape shape,
                RowTiling tiling) {
  const auto [b, channel, split, rows] = row_part(tiling, shape.channels);
  const int threads = static_cast<int>(blockDim.x);
  const Value* source = features + (b * shape.channels + channel) * shape.points;
  if constexpr (kStaged) {
    Value* const staged = &shared_as<Value>();
    for (int64_t i = threadIdx.x; i < rows * shape.points; i += threads) staged[i] = source[i];
    __syncthreads();
    source = staged;
  }
  const Index* const indices = idx + b * shape.samples;
  Value* const target = out + (b * shape.channels + channel) * shape.samples;
  const int64_t stride = tiling.splits * threads * kWidth;
  for (int64_t j = (split * threads + threadIdx.x) * kWidth; j < shape.samples; j += stride) {
    const auto columns = *reinterpret_cast<const Vector<Index, kWidth>*>(indices + j);
    for (int r = 0; r < rows; ++r) {
      Vector<Value, kWidth> values;
#pragma unroll
      for (int w = 0; w < kWidth; ++w) {
        values.at[w] = source[r * shape.points + checked(columns.at[w], shape.points)];
      }
      *reinterpret_cast<Vector<Value, kWidth>*>(target + r * shape.samples + j) = values;
    }
  }
}

// A row in shared memory.
bool fits(const GatherShape& shape, int element_bytes, int device) {
  return shape.points * element_bytes <=
         device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

template <typename Value, typename Index>
int gather_as(const void* features, const void* idx, void* out, const GatherShape& shape,
              int device, void* stream) {
  const int64_t row_bytes = shape.points * static_cast<int64_t>(sizeof(Value));
  const bool staged = fits(shape, sizeof(Value), device) && shape.samples * kSparse >= shape.points;
  const RowTiling tiling =
      row_tiling({shape.batch, shape.channels, shape.samples, staged ? row_bytes : 0, sizeof(Index),
                  sizeof(Value), kSamplesPerBlock},
                 device);
  // A view may begin anywhere; `out` is always aligned.
  const bool vectors = shape.samples % 4 == 0 && is_aligned<Index>(idx, 4);
  const auto kernel = !staged   ? gather_tile<Value, Index, 1, false>
                      : vectors ? gather_tile<Value, Index, 4, true>
                                : gather_tile<Value, Index, 1, true>;
  const int64_t staged_bytes = staged ? tiling.rows * row_bytes : 0;
  const LaunchShape launch_shape = {tiling.blocks, tiling.threads,
                                    static_cast<size_t>(staged_bytes)};
  return launch(kernel, launch_shape, stream, features, idx, out, shape, tiling);
}

template <typename Value>
int gather_elements(const void* features, const void* idx, void* out, const GatherShape& shape,
                    bool wide_index, int device, void* stream) {
  return wide_index ? gather_as<Value, int64_t>(features, idx, out, shape, device, stream)
                    : gather_as<Value, int32_t>(features, idx, out, shape, device, stream);
}

}  // namespace

// A single element moves a sector; channels of a point together move themselves, once the features
// are turned: read, and written and read with what fills up the last vector.
bool gather_wants_vectors(const GatherShape& shape, int element_bytes, int device) {
  constexpr int64_t kSector = 32;
  if (fits(shape, element_bytes, device) || element_bytes < 4) return false;
  const int64_t vector = vector_pitch(shape.channels) * element_bytes;
  const int64_t turn = shape.points * (shape.channels * element_bytes + vector);
  return turn + shape.samples * vector < shape.samples * shape.channels * kSector;
}

int gather(const void* features, const void* idx, void* out, const GatherShape& shape,
           int element_bytes, bool wide_index, int device, void* stream) {
  if (shape.batch * shape.channels * shape.samples == 0) return cudaSuccess;
  const auto run = element_bytes == 1   ? gather_elements<uint8_t>
                   : element_bytes == 2 ? gather_elements<uint16_t>
                   : element_bytes == 4 ? gather_elements<uint32_t>
                   : element_bytes == 8 ? gather_elements<uint64_t>
                                        : nullptr;
  if (!run) return cudaErrorInvalidValue;
  return run(features, idx, out, shape, wide_index, device, stream);
}

}  // namespace farpoint::cuda
