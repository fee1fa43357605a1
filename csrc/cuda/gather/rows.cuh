// Tiling, index checks and vector types of the gather and scatter kernels.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "cuda/common/device.cuh"
#include "cuda/common/launch.cuh"
#include "cuda/gather/gather.h"

namespace farpoint::cuda {

constexpr int64_t kStagedBytes = 64 * 1024;  // two blocks of 1024 threads share a processor

template <typename Value, int kWidth>
struct alignas(sizeof(Value) * (kWidth % 2 ? 1 : kWidth)) Vector {
  Value at[kWidth];
};

template <int kWidth, typename Value>
__device__ Vector<Value, kWidth> vector_at(const Value* from) {
  return *reinterpret_cast<const Vector<Value, kWidth>*>(from);
}

template <typename Index>
__device__ int64_t checked(Index i, int64_t columns) {
  assert(i >= 0 && i < columns && "idx: an index is out of range");
  return i;
}

// Of neighboring samples, for rows that shared memory holds.
template <int kWidth, typename Index>
__device__ Vector<int, kWidth> columns_at(const Index* idx, int64_t columns) {
  const auto given = vector_at<kWidth>(idx);
  Vector<int, kWidth> result;
#pragma unroll
  for (int w = 0; w < kWidth; ++w) result.at[w] = static_cast<int>(checked(given.at[w], columns));
  return result;
}

// Rounded by itself before it is added, as on the CPU.
__device__ inline float product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return __dmul_rn(a, b); }

// `Weights` of the kernels.
template <typename Value>
struct WeightsOf {
  const Value* at;
  unsigned corners;

  explicit WeightsOf(const Weights& weights)
      : at(static_cast<const Value*>(weights.at)),
        corners(static_cast<unsigned>(weights.corners)) {}
};

// Calls run(Value{}, Index{}).
template <typename Run>
int with_types(RowTypes types, Run run) {
  if (types.wide_value) return types.wide_index ? run(double{}, int64_t{}) : run(double{}, int{});
  return types.wide_index ? run(float{}, int64_t{}) : run(float{}, int{});
}

constexpr int kCorners = 3;  // of a point with weights, in kernels that hold them in registers

// A call whose blocks hold rows of channels in shared memory and pass over samples.
struct RowWork {
  int64_t batch, channels, samples;
  int64_t row_bytes;        // held of a channel
  int64_t sample_bytes;     // read of a sample once for all rows of a block: indices, weights
  int64_t value_bytes;      // read or written of a sample for each row
  int64_t samples_at_once;  // fewer are not worth a block that shares a tile; 0: none may
  int most_rows = 32;       // of a block
};

struct RowTiling {
  int rows;           // channels per block
  int64_t row_tiles;  // blocks that the channels of a cloud take
  int64_t splits;     // blocks that the samples of a tile take
  int64_t blocks;
  unsigned threads;
};

// A block that is one of few on its processor, by number or by what it holds, brings the threads
// itself.
inline RowTiling row_tiling(const RowWork& work, int rows, int64_t splits, int64_t processors) {
  const int64_t tiles = ceil_div(work.channels, rows), blocks = work.batch * tiles * splits;
  const bool many = blocks > 3 * processors && rows * work.row_bytes <= kStagedBytes / 2;
  return {rows, tiles, splits, blocks, many ? 256u : 1024u};
}

// Few rows read the samples' indices often, and many splits the rows; too few blocks leave
// processors idle. So: the least bytes that the busiest processor moves.
inline RowTiling row_tiling(const RowWork& work, int device) {
  constexpr int kMostWaves = 4;
  const int64_t processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int64_t useful =
      work.samples_at_once > 0 ? ceil_div(work.samples, work.samples_at_once) : 1;
  RowTiling best = {};
  int64_t least = INT64_MAX;
  for (int rows = 1; rows <= std::min<int64_t>(work.most_rows, work.channels); ++rows) {
    if (rows > 1 && rows * work.row_bytes > kStagedBytes) break;
    const int64_t of_tile = work.batch * ceil_div(work.channels, rows);
    for (int waves = 1; waves <= kMostWaves; ++waves) {
      const int64_t splits = std::clamp<int64_t>(waves * processors / of_tile, 1, useful);
      const int64_t of_block =
          rows * work.row_bytes +
          ceil_div(work.samples, splits) * (work.sample_bytes + rows * work.value_bytes);
      const int64_t bytes = of_block * ceil_div(of_tile * splits, processors);
      if (bytes >= least) continue;
      least = bytes;
      best = row_tiling(work, rows, splits, processors);
    }
  }
  return best;
}

// What is a block's own.
struct RowPart {
  int64_t b, channel, split;
  int rows;
};

__device__ inline RowPart row_part(const RowTiling& tiling, int64_t channels) {
  const int64_t tile = blockIdx.x / tiling.splits;
  const int64_t channel = tile % tiling.row_tiles * tiling.rows;
  return {tile / tiling.row_tiles, channel, blockIdx.x % tiling.splits,
          static_cast<int>(min(int64_t{tiling.rows}, channels - channel))};
}

template <typename T>
bool is_aligned(const void* p, int width) {
  return reinterpret_cast<uintptr_t>(p) % (width * sizeof(T)) == 0;
}

}  // namespace farpoint::cuda
