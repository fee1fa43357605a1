// Scatter-add kernel that holds rows of the output in shared memory.
//
// 1. An atomic on global memory moves a whole sector for one value, and the output has to be zeroed
//    before.
// 2. Here a block holds rows of the output, adds to them there and writes them once, coalesced.
//    One read of an index serves all rows of the block.
// 3. Shared memory adds floats in a loop around a compare-and-swap. Distinct indices, as those of a
//    farthest point sampling, need none of it: a block first looks for a repeated one, with a bit
//    per point and one integer atomic per index, and stores plainly where there is none. So nobody
//    has to promise anything, and no host waits for the answer.
#include "cuda/gather/rows.cuh"
#include "cuda/gather/scatter.h"

namespace farpoint::cuda {
namespace {

constexpr int kMostThreads = 1024;

// A bit per point, and a word that tells whether any index was repeated.
__host__ __device__ int64_t seen_words(int64_t points) { return ceil_div(points, 32) + 1; }

__device__ void clear(unsigned* words, int64_t count) {
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) words[i] = 0;
}

// `seen` is zero. The whole block takes part.
template <typename Index>
__device__ bool are_distinct(const Index* indices, const GatherShape& shape, unsigned* seen) {
  unsigned* const repeated = seen + seen_words(shape.points) - 1;
  for (int64_t j = threadIdx.x; j < shape.samples; j += blockDim.x) {
    const int i = static_cast<int>(checked(indices[j], shape.points));
    const unsigned bit = 1u << i % 32;
    if (atomicOr(&seen[i / 32], bit) & bit) atomicOr(repeated, 1u);
  }
  __syncthreads();
  return *repeated == 0;
}

// A sum of one value: 0 + v, which is not v where that is -0.
template <typename Value>
__device__ void put(Value* sum, Value v, bool distinct) {
  if (distinct) {
    *sum = Value{0} + v;
  } else {
    atomicAdd(sum, v);
  }
}

template <typename Value, typename Index, int kWidth>
__global__ void __launch_bounds__(kMostThreads)
    add_rows(const Value* values, const Index* idx, Value* out, GatherShape shape, RowTiling tiling,
             bool may_be_distinct) {
  const auto [b, channel, split, rows] = row_part(tiling, shape.channels);
  const int points = static_cast<int>(shape.points);
  const int held = rows * points;
  const Index* const indices = idx + b * shape.samples;
  Value* const sums = &shared_as<Value>();
  auto* const seen = reinterpret_cast<unsigned*>(sums + tiling.rows * points);
  for (int i = threadIdx.x; i < held; i += blockDim.x) sums[i] = 0;
  if (may_be_distinct) clear(seen, seen_words(points));
  __syncthreads();
  const bool distinct = may_be_distinct && are_distinct(indices, shape, seen);

  const Value* const from = values + (b * shape.channels + channel) * shape.samples;
  const int64_t stride = int64_t{blockDim.x} * kWidth;
  for (int64_t j = int64_t{threadIdx.x} * kWidth; j < shape.samples; j += stride) {
    const auto columns = *reinterpret_cast<const Vector<Index, kWidth>*>(indices + j);
    int at[kWidth];
#pragma unroll
    for (int w = 0; w < kWidth; ++w) at[w] = static_cast<int>(checked(columns.at[w], points));
    for (int r = 0; r < rows; ++r) {
      const auto given =
          *reinterpret_cast<const Vector<Value, kWidth>*>(from + r * shape.samples + j);
#pragma unroll
      for (int w = 0; w < kWidth; ++w) put(&sums[r * points + at[w]], given.at[w], distinct);
    }
  }
  __syncthreads();
  Value* const target = out + (b * shape.channels + channel) * shape.points;
  for (int i = threadIdx.x; i < held; i += blockDim.x) target[i] = sums[i];
}

template <typename Value, typename Index>
int rows_as(const void* values, const void* idx, void* out, const GatherShape& shape, int device,
            void* stream) {
  const int64_t row_bytes = shape.points * static_cast<int64_t>(sizeof(Value));
  const bool may_be_distinct = shape.samples <= shape.points;
  const RowTiling tiling = row_tiling({shape.batch, shape.channels, shape.samples, row_bytes,
                                       int64_t{sizeof(Index)} << may_be_distinct, sizeof(Value), 0},
                                      device);
  const int64_t seen = may_be_distinct ? seen_words(shape.points) * sizeof(unsigned) : 0;
  const LaunchShape launch_shape = {static_cast<unsigned>(tiling.blocks), tiling.threads,
                                    static_cast<size_t>(tiling.rows * row_bytes + seen)};
  const bool aligned = is_aligned<Index>(idx, 4) && is_aligned<Value>(values, 4);
  const auto kernel =
      shape.samples % 4 == 0 && aligned ? add_rows<Value, Index, 4> : add_rows<Value, Index, 1>;
  return launch(kernel, launch_shape, stream, static_cast<const Value*>(values),
                static_cast<const Index*>(idx), static_cast<Value*>(out), shape, tiling,
                may_be_distinct);
}

}  // namespace

bool scatter_fits(ScatterMethod method, const GatherShape& shape, bool wide_value, int device) {
  if (method == ScatterMethod::kVectors) return !wide_value;
  if (method == ScatterMethod::kAtomic) return true;
  const int64_t bytes = shape.points * (wide_value ? 8 : 4) + seen_words(shape.points) * 4;
  return bytes <= device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

int scatter_rows(const void* values, const void* idx, void* out, const GatherShape& shape,
                 ScatterTypes types, int device, void* stream) {
  if (shape.batch * shape.channels == 0) return cudaSuccess;
  const auto run = types.wide_value
                       ? (types.wide_index ? rows_as<double, int64_t> : rows_as<double, int32_t>)
                       : (types.wide_index ? rows_as<float, int64_t> : rows_as<float, int32_t>);
  return run(values, idx, out, shape, device, stream);
}

}  // namespace farpoint::cuda
