// Scatter-add kernel that holds rows of the output in shared memory.
//
// A block adds to its rows there and writes them once. Shared memory adds floats in a loop around a
// compare-and-swap, so a block first looks for a repeated index, with a bit per point, and stores
// plainly where there is none, as after a farthest point sampling.
#include "cuda/gather/gather.h"
#include "cuda/gather/rows.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kMostThreads = 1024;

// A bit per point, and a word that is set where an index was repeated.
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

// A thread's samples: neighbors with a value each, or the corners of a point, which share it.
template <typename Value, int kWidth, bool kWeighted>
struct Given {
  Vector<Value, kWidth> weights;

  __device__ Vector<Value, kWidth> load(const Value* row, int64_t place) const {
    if constexpr (!kWeighted) return vector_at<kWidth>(row + place * kWidth);
    Vector<Value, kWidth> shares;
    const Value value = row[place];
#pragma unroll
    for (int w = 0; w < kWidth; ++w) shares.at[w] = product(value, weights.at[w]);
    return shares;
  }
};

template <typename Value, typename Index, int kWidth, bool kWeighted>
__global__ void __launch_bounds__(kMostThreads, 1)
    add_rows(const Value* values, const Index* idx, const Value* weight, Value* out,
             GatherShape shape, RowTiling tiling, bool may_be_distinct) {
  const auto [b, channel, split, rows] = row_part(tiling, shape.channels);
  const int points = static_cast<int>(shape.points);
  const int held = rows * points;
  const Index* const indices = idx + b * shape.samples;
  Value* const sums = &shared_as<Value>();
  auto* const seen = reinterpret_cast<unsigned*>(sums + tiling.rows * points);
  for (int i = threadIdx.x; i < held; i += blockDim.x) sums[i] = 0;
  if (!kWeighted && may_be_distinct) clear(seen, seen_words(points));
  __syncthreads();
  const bool distinct = !kWeighted && may_be_distinct && are_distinct(indices, shape, seen);

  const int64_t places = shape.samples / kWidth, row_values = kWeighted ? places : shape.samples;
  const Value* const from = values + (b * shape.channels + channel) * row_values;
  for (int64_t place = threadIdx.x; place < places; place += blockDim.x) {
    const auto columns = columns_at<kWidth>(indices + place * kWidth, points);
    Given<Value, kWidth, kWeighted> given;
    if constexpr (kWeighted)
      given.weights = vector_at<kWidth>(weight + (b * places + place) * kWidth);
    for (int r = 0; r < rows; ++r) {
      const auto v = given.load(from + r * row_values, place);
#pragma unroll
      for (int w = 0; w < kWidth; ++w) put(&sums[r * points + columns.at[w]], v.at[w], distinct);
    }
  }
  __syncthreads();
  Value* const target = out + (b * shape.channels + channel) * shape.points;
  for (int i = threadIdx.x; i < held; i += blockDim.x) target[i] = sums[i];
}

template <typename Value, typename Index>
int rows_as(const void* values, const void* idx, Weights weights, void* out,
            const GatherShape& shape, int device, void* stream) {
  const int64_t row_bytes = shape.points * static_cast<int64_t>(sizeof(Value));
  const bool may_be_distinct = shape.samples <= shape.points;
  const int64_t index_bytes = int64_t{sizeof(Index)} << may_be_distinct;
  const RowTiling tiling =
      row_tiling({shape.batch, shape.channels, shape.samples, row_bytes,
                  index_bytes + (weights.at ? int64_t{sizeof(Value)} : 0), sizeof(Value), 0},
                 device);
  const int64_t seen = may_be_distinct ? seen_words(shape.points) * sizeof(unsigned) : 0;
  const LaunchShape launch_shape = {tiling.blocks, tiling.threads,
                                    static_cast<size_t>(tiling.rows * row_bytes + seen)};
  constexpr int kWidth = 16 / sizeof(Value);
  const bool vectors = shape.samples % kWidth == 0 && is_aligned<Index>(idx, kWidth) &&
                       is_aligned<Value>(values, kWidth);
  const auto kernel = weights.at ? add_rows<Value, Index, kCorners, true>
                      : vectors  ? add_rows<Value, Index, kWidth, false>
                                 : add_rows<Value, Index, 1, false>;
  return launch(kernel, launch_shape, stream, values, idx, weights.at, out, shape, tiling,
                may_be_distinct);
}

}  // namespace

bool scatter_fits(ScatterMethod method, const GatherShape& shape, Weights weights, bool wide_value,
                  int device) {
  if (method != ScatterMethod::kRows) return true;
  const int64_t bytes = shape.points * (wide_value ? 8 : 4) + seen_words(shape.points) * 4;
  return bytes <= device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) &&
         (!weights.at || weights.corners == kCorners);
}

// Rows need a block for every other processor at least.
ScatterMethod scatter_method(const GatherShape& shape, Weights weights, bool wide_value,
                             int device) {
  const int64_t processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const bool busy = 2 * shape.batch * shape.channels >= processors;
  return busy && scatter_fits(ScatterMethod::kRows, shape, weights, wide_value, device)
             ? ScatterMethod::kRows
             : ScatterMethod::kVectors;
}

int scatter_rows(const void* values, const void* idx, Weights weights, void* out,
                 const GatherShape& shape, RowTypes types, int device, void* stream) {
  if (shape.batch * shape.channels == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    return rows_as<decltype(value), decltype(index)>(values, idx, weights, out, shape, device,
                                                     stream);
  });
}

}  // namespace farpoint::cuda
