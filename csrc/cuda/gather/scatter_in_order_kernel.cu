// Scatter-add kernel that adds in the order of the samples, as the CPU does: the same bits.
//
// 1. Once the indices are sorted, a thread can add up the samples of a point alone, but reads their
//    values in the order of points: 4 bytes of a sector.
// 2. Here a warp owns a row of the output, holds it in shared memory and goes over the row's values
//    as they stand, 32 at a time. Where lanes share a point the lowest adds up the values of all,
//    in the order of lanes: one load and one store of a sum, no atomics, no sort.
// 3. Which lanes share a point is found out once for all rows of the block, a tile ahead. Rows too
//    long for shared memory are cut into ranges, each of which passes over all samples.
#include "cuda/gather/rows.cuh"
#include "cuda/gather/scatter.h"

namespace farpoint::cuda {
namespace {

constexpr int kRows = 8;  // a warp for each
constexpr int kThreads = kRows * kWarp;
constexpr int kGroups = 8;  // of 32 samples, in a tile
constexpr int kTile = kGroups * kWarp;
static_assert(kTile == kThreads);  // a thread prepares a sample of each tile

constexpr int kNone = -1;

// `column` is kNone where the block does not hold it or a lower lane adds up; `others` are the
// higher lanes that share it.
struct Sample {
  int column;
  unsigned others;
};

// One is added while the next is prepared.
struct Tiles {
  Sample at[2][kTile];
  bool repeat[2][kGroups];  // groups in which any lane has others
};

// The columns of the output that a block holds.
struct Range {
  int64_t first, length;
};

template <typename Index>
__device__ int column_of(const Index* indices, int64_t j, const GatherShape& shape, Range range) {
  if (j >= shape.samples) return kNone;
  const int64_t column = checked(indices[j], shape.points) - range.first;
  return column >= 0 && column < range.length ? static_cast<int>(column) : kNone;
}

__device__ void prepare(Tiles& tiles, int turn, int column) {
  const unsigned equal = __match_any_sync(kAllLanes, column);
  const bool leads = column != kNone && (equal & lanes_below()) == 0;
  const unsigned others = leads ? equal & (equal - 1) : 0;
  const bool repeat = __ballot_sync(kAllLanes, others != 0) != 0;
  tiles.at[turn][threadIdx.x] = {leads ? column : kNone, others};
  if (lane_id() == 0) tiles.repeat[turn][warp_id()] = repeat;
}

// A lane's values of the groups of a tile.
template <typename Value>
struct Given {
  Value at[kGroups];

  // Samples from `j` on of a row; behind the last anything.
  __device__ void load(const Value* row, const WeightsOf<Value>& weights, int64_t j,
                       int64_t samples) {
    j += lane_id();
    if (weights.at) return load_weighted(row, weights, j, samples);
    const bool whole = j + (kTile - kWarp) < samples;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (whole || j + g * kWarp < samples) at[g] = row[j + g * kWarp];
    }
  }

  __device__ void load_weighted(const Value* row, const WeightsOf<Value>& weights, int64_t j,
                                int64_t samples) {
    const Value* const points = row + j / weights.corners;
    const auto corner = static_cast<unsigned>(j % weights.corners);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (j + g * kWarp >= samples) return;
      const Value value = points[(corner + g * kWarp) / weights.corners];
      at[g] = product(value, weights.at[j + g * kWarp]);
    }
  }
};

// Each sum is loaded once the one before is stored, which may be the same; all else is done before.
template <typename Value>
__device__ void add(Value* sums, const Tiles& tiles, int turn, const Given<Value>& given) {
  Sample samples[kGroups];
  bool repeat[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    samples[g] = tiles.at[turn][g * kWarp + lane_id()];
    repeat[g] = tiles.repeat[turn][g];
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const Value value = given.at[g];
    const bool leads = samples[g].column != kNone;
    Value sum = leads ? sums[samples[g].column] + value : value;
    unsigned others = samples[g].others;
    for (bool more = repeat[g]; more; more = __ballot_sync(kAllLanes, others != 0) != 0) {
      const int from = others ? __ffs(static_cast<int>(others)) - 1 : lane_id();
      const Value other = __shfl_sync(kAllLanes, value, from);
      if (others) sum += other;
      others &= others - 1;
    }
    if (leads) sums[samples[g].column] = sum;
    __syncwarp();
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads)
    add_in_order(const Value* values, const Index* idx, WeightsOf<Value> weights, Value* out,
                 GatherShape shape, RowTiling tiling, int64_t ranges, int64_t length) {
  const auto [part, channel, split, rows] = row_part(tiling, shape.channels);
  const int64_t b = part / ranges, first = part % ranges * length;
  const Range range = {first, min(length, shape.points - first)};
  const bool owns = warp_id() < rows;
  auto& tiles = shared_as<Tiles>();
  Value* const sums = reinterpret_cast<Value*>(&tiles + 1) + warp_id() * length;
  const Index* const indices = idx + b * shape.samples;
  const int64_t row = b * shape.channels + channel + warp_id();
  const Value* const source = values + row * (shape.samples / weights.corners);
  weights.at += weights.at ? b * shape.samples : 0;

  for (int64_t i = lane_id(); owns && i < range.length; i += kWarp) sums[i] = 0;
  Given<Value> next = {};
  if (owns) next.load(source, weights, 0, shape.samples);
  prepare(tiles, 0, column_of(indices, threadIdx.x, shape, range));
  int column = column_of(indices, kTile + threadIdx.x, shape, range);
  int turn = 0;
  for (int64_t j = 0; j < shape.samples; j += kTile, turn ^= 1) {
    __syncthreads();
    const Given<Value> given = next;
    if (owns) next.load(source, weights, j + kTile, shape.samples);
    prepare(tiles, turn ^ 1, column);
    column = column_of(indices, j + 2 * kTile + threadIdx.x, shape, range);
    if (owns) add(sums, tiles, turn, given);
  }
  __syncwarp();
  Value* const target = out + row * shape.points + range.first;
  for (int64_t i = lane_id(); owns && i < range.length; i += kWarp) target[i] = sums[i];
}

template <typename Value, typename Index>
int in_order_as(const void* values, const void* idx, Weights weights, void* out,
                const GatherShape& shape, int device, void* stream) {
  const int64_t limit =
      device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) - sizeof(Tiles);
  const int64_t value_bytes = sizeof(Value);
  const int64_t ranges = std::max<int64_t>(1, ceil_div(shape.points * value_bytes, limit));
  const int64_t length = ceil_div(shape.points, ranges);
  const RowTiling tiling = row_tiling({shape.batch * ranges, shape.channels, shape.samples,
                                       length * value_bytes, sizeof(Index), value_bytes, 0, kRows},
                                      device);
  const LaunchShape launch_shape = {
      static_cast<unsigned>(tiling.blocks), kThreads,
      sizeof(Tiles) + static_cast<size_t>(tiling.rows * length * value_bytes)};
  return launch(add_in_order<Value, Index>, launch_shape, stream, static_cast<const Value*>(values),
                static_cast<const Index*>(idx), WeightsOf<Value>(weights), static_cast<Value*>(out),
                shape, tiling, ranges, length);
}

}  // namespace

int scatter_in_order(const void* values, const void* idx, Weights weights, void* out,
                     const GatherShape& shape, RowTypes types, int device, void* stream) {
  if (shape.batch * shape.channels == 0) return cudaSuccess;
  return with_types(types, [&](auto value, auto index) {
    return in_order_as<decltype(value), decltype(index)>(values, idx, weights, out, shape, device,
                                                         stream);
  });
}

}  // namespace farpoint::cuda
