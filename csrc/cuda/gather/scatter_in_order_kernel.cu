// Scatter-add in the order of the samples, with the bits of the CPU.
//
// A warp owns a row of the output in shared memory and goes over the row's values, 32 at a time.
// Where lanes share a point the lowest adds up the values of all, in the order of lanes, without
// atomics or a sort. Rows too long for shared memory are cut into ranges, each of which passes over
// all samples.
#include "cuda/gather/gather.h"
#include "cuda/gather/rows.cuh"

namespace farpoint::cuda {

// What a row's warp does with a sample: its lane adds `count` values to the sum at `column`, its
// own and those of the higher lanes that share the column. Where any do, `longest` is more than 1,
// and the lanes show their values to one another in the order of `slot`: those of a column side by
// side.
struct Sample {
  int column;
  uint8_t slot, count, longest;
};

// The columns of the output that a block holds. Behind a row's sums are unused ones, one for
// each lane: of samples of other columns, and of those that a lower lane adds up.
struct Range {
  int64_t first;
  int length;

  __device__ int unused() const { return length + lane_id(); }
};

// Of a row in shared memory.
__host__ __device__ inline int64_t held_sums(int64_t length) { return length + kWarp; }

// The sum of the values of lower lanes.
__device__ inline int sum_below(int value) {
  int sum = value;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane_id() >= step) sum += other;
  }
  return sum - value;
}

template <typename Index>
__device__ Sample prepared(Index index, bool exists, int64_t points, Range range) {
  const int64_t place = exists ? checked(index, points) - range.first : -1;
  const bool held = place >= 0 && place < range.length;
  const int column = held ? static_cast<int>(place) : range.unused();
  const unsigned equal = __match_any_sync(kAllLanes, column);
  const unsigned below = equal & lanes_below();
  const int count = below == 0 ? __popc(equal) : 0, counted = held ? count : 0;
  const int longest = __reduce_max_sync(kAllLanes, static_cast<unsigned>(counted));
  int slot = 0;
  if (longest > 1) {
    slot = __shfl_sync(kAllLanes, sum_below(count), __ffs(static_cast<int>(equal)) - 1);
    slot += __popc(below);
  }
  return {counted > 0 ? column : range.unused(), static_cast<uint8_t>(slot),
          static_cast<uint8_t>(counted), static_cast<uint8_t>(longest)};
}

// Adds up what the higher lanes of a column hold, in their order. All lanes of the warp take part.
template <typename Value>
__device__ Value with_others(Value sum, Value value, Sample sample, Value* shown) {
  shown[sample.slot] = value;
  __syncwarp();
#pragma unroll 4
  for (int i = 1; i < sample.longest; ++i) {
    const Value other = shown[sample.slot + i];
    if (i < sample.count) sum += other;
  }
  __syncwarp();
  return sum;
}

namespace {

constexpr int kRows = 8;  // a warp for each
constexpr int kThreads = kRows * kWarp;
constexpr int kGroups = 8;  // of 32 samples, in a tile
constexpr int kTile = kGroups * kWarp;
static_assert(kTile == kThreads);  // a thread prepares a sample of each tile

template <typename Value>
struct Tiles {
  Sample at[2][kTile];     // one is added while the next is prepared
  Value shown[2 * kTile];  // of a warp 64, of which a lane may read all behind its own
};

// A lane's values of the groups of a tile.
template <typename Value>
struct Given {
  Value at[kGroups];

  // Samples from `j` on of a row; behind the last anything.
  __device__ void load(const Value* row, const WeightsOf<Value>& weights, int64_t j,
                       int64_t samples) {
    if (weights.at) return load_weighted(row, weights, j + lane_id(), samples);
    const Value* const from = row + j + lane_id();
    if (j + kTile <= samples) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) at[g] = from[g * kWarp];
    } else {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        if (j + g * kWarp + lane_id() < samples) at[g] = from[g * kWarp];
      }
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
__device__ void add(Value* sums, const Sample* tile, const Given<Value>& given, Value* shown) {
  Sample samples[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) samples[g] = tile[g * kWarp + lane_id()];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    Value* const at = sums + samples[g].column;
    Value sum = *at + given.at[g];
    if (samples[g].longest > 1) sum = with_others(sum, given.at[g], samples[g], shown);
    *at = sum;
    __syncwarp();
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads)
    add_in_order(const Value* values, const Index* idx, WeightsOf<Value> weights, Value* out,
                 GatherShape shape, RowTiling tiling, int64_t ranges, int length) {
  const auto [part, channel, split, rows] = row_part(tiling, shape.channels);
  const int64_t b = part / ranges, first = part % ranges * length;
  const Range range = {first, static_cast<int>(min(int64_t{length}, shape.points - first))};
  const bool owns = warp_id() < rows;
  auto& tiles = shared_as<Tiles<Value>>();
  Value* const held = reinterpret_cast<Value*>(&tiles + 1);
  Value* const sums = held + warp_id() * held_sums(length);
  const Index* const indices = idx + b * shape.samples;
  const int64_t row = b * shape.channels + channel + warp_id();
  const Value* const source = values + row * (shape.samples / weights.corners);
  weights.at += weights.at ? b * shape.samples : 0;

  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < rows * held_sums(length); i += kThreads) held[i] = 0;
  const auto index_at = [&](int64_t j) { return j < shape.samples ? indices[j] : Index{0}; };
  const auto prepare = [&](int turn, int64_t j, Index index) {
    tiles.at[turn][thread] = prepared(index, j < shape.samples, shape.points, range);
  };
  Given<Value> next = {};
  if (owns) next.load(source, weights, 0, shape.samples);
  prepare(0, thread, index_at(thread));
  Index index = index_at(kTile + thread);
  int turn = 0;
  for (int64_t j = 0; j < shape.samples; j += kTile, turn ^= 1) {
    __syncthreads();
    const Given<Value> given = next;
    if (owns) next.load(source, weights, j + kTile, shape.samples);
    prepare(turn ^ 1, j + kTile + thread, index);
    index = index_at(j + 2 * kTile + thread);
    if (owns) add(sums, tiles.at[turn], given, tiles.shown + 2 * warp_id() * kWarp);
  }
  __syncthreads();
  Value* target = out + (b * shape.channels + channel) * shape.points + range.first;
  for (int r = 0; r < rows; ++r, target += shape.points) {
    for (int i = thread; i < range.length; i += kThreads)
      target[i] = held[r * held_sums(length) + i];
  }
}

template <typename Value, typename Index>
int in_order_as(const void* values, const void* idx, Weights weights, void* out,
                const GatherShape& shape, int device, void* stream) {
  const int64_t limit = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device) -
                        int64_t{sizeof(Tiles<Value>)};
  const int64_t most = limit / int64_t{sizeof(Value)} - kWarp;
  const int64_t ranges = std::max<int64_t>(1, ceil_div(shape.points, most));
  const int64_t length = ceil_div(shape.points, ranges);
  const int64_t row_bytes = held_sums(length) * int64_t{sizeof(Value)};
  const RowTiling tiling =
      row_tiling({shape.batch * ranges, shape.channels, shape.samples,
                  length * int64_t{sizeof(Value)}, sizeof(Index), sizeof(Value), 0, kRows},
                 device);
  const LaunchShape launch_shape = {
      static_cast<unsigned>(tiling.blocks), kThreads,
      sizeof(Tiles<Value>) + static_cast<size_t>(tiling.rows * row_bytes)};
  return launch(add_in_order<Value, Index>, launch_shape, stream, values, idx, weights, out, shape,
                tiling, ranges, length);
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
