// How a warp adds 32 samples in their order to sums in shared memory: which of them share a column
// is found out once for all rows that take the same samples.
#pragma once

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

// The columns of the output that a block holds. Behind a row's sums are those of nobody, one for
// each lane: of samples of other columns, and of those that a lower lane adds up.
struct Range {
  int64_t first;
  int length;

  __device__ int nobody() const { return length + lane_id(); }
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
  const int column = held ? static_cast<int>(place) : range.nobody();
  const unsigned equal = __match_any_sync(kAllLanes, column);
  const unsigned below = equal & lanes_below();
  const int count = below == 0 ? __popc(equal) : 0, counted = held ? count : 0;
  const int longest = __reduce_max_sync(kAllLanes, static_cast<unsigned>(counted));
  int slot = 0;
  if (longest > 1) {
    slot = __shfl_sync(kAllLanes, sum_below(count), __ffs(static_cast<int>(equal)) - 1);
    slot += __popc(below);
  }
  return {counted > 0 ? column : range.nobody(), static_cast<uint8_t>(slot),
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

}  // namespace farpoint::cuda
