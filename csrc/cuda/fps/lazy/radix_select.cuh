// Radix select over all blocks: a threshold key with as many keys above it as the head can hold.
//
// A radix select that stops as soon as it is good enough. The first window is the factor of two in
// squared distance below the last threshold, which nearly always holds the answer; a bin that alone
// is too full is split again, down to single keys, so that any number of ties has an end.
#pragma once

#include "cuda/fps/lazy/state.cuh"

namespace farpoint::cuda::lazy {

constexpr int kBinBits = 10;
constexpr int kOctaveShift = 23 + 32 - kBinBits;  // bins of a factor of two in distance
constexpr int kWholeShift = 31 + 32 - kBinBits;   // bins of every non-negative float
static_assert(1 << kBinBits == kBins);

// Keys [base, end) in bins of 2^shift; `above` keys are known to lie at `end` or beyond.
struct Window {
  Key base, end;
  int shift;
  int above;

  __device__ bool holds(Key key) const { return key >= base && key < end; }
  __device__ int bin(Key key) const { return static_cast<int>((key - base) >> shift); }
};

__device__ inline Window window_below(Key end) {
  constexpr Key kSpan = Key{kBins} << kOctaveShift;
  return {end > kSpan ? end - kSpan : 0, end, kOctaveShift, 0};
}

struct Choice {
  bool found;
  Key threshold;  // found: every key from here on
  int count;      // found: how many there are
  Window next;    // not found: where to look
};

__device__ inline void clear_bins(SelectShared& shared) {
  for (int i = threadIdx.x; i < kBins; i += kThreads) shared.histogram[i] = 0;
  __syncthreads();
}

__device__ inline void count_key(SelectShared& shared, const Window& window, float nearest,
                                 int row) {
  const Key key = key_of(nearest, row);
  if (nearest > 0.0f && window.holds(key)) atomicAdd(&shared.histogram[window.bin(key)], 1);
}

__device__ inline void publish_bins(const SelectShared& shared, int* histogram) {
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += kThreads) {
    if (shared.histogram[i] != 0) atomicAdd(&histogram[i], shared.histogram[i]);
  }
}

// Sum of `mine` over the threads before this one.
__device__ inline int sum_before(SelectShared& shared, int mine) {
  int sum = mine;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    sum += lane_id() >= step ? other : 0;
  }
  if (lane_id() == kWarp - 1) shared.of_warp[warp_id()] = sum;
  __syncthreads();
  for (int w = 0; w < warp_id(); ++w) sum += shared.of_warp[w];
  return sum - mine;
}

// Walks the bins from the top: the first one with which the head overflows, or -1, and how many
// keys lie above it. Every block finds the same.
__device__ inline void find_overflow(SelectShared& shared, const int* histogram, int above,
                                     int limit) {
  constexpr int kPerThread = kBins / kThreads;
  const int top = kBins - 1 - static_cast<int>(threadIdx.x) * kPerThread;
  int counts[kPerThread], mine = 0;
  for (int i = 0; i < kPerThread; ++i) mine += counts[i] = __ldcg(&histogram[top - i]);
  if (threadIdx.x == 0) shared.overflow = -1;
  int sum = above + sum_before(shared, mine);
  for (int i = 0; i < kPerThread; ++i) {
    const bool crosses = sum <= limit && sum + counts[i] > limit;
    if (crosses) shared.overflow = top - i;
    if (crosses) shared.before_overflow = sum;
    sum += counts[i];
  }
  const bool last = threadIdx.x == kThreads - 1;
  if (last && sum <= limit) shared.before_overflow = sum;
  __syncthreads();
}

__device__ inline Choice choose(SelectShared& shared, const int* histogram, const Window& window,
                                int limit) {
  find_overflow(shared, histogram, window.above, limit);
  const int count = shared.before_overflow;
  if (shared.overflow < 0) {
    const Window whole = {0, ~Key{0}, kWholeShift, 0};
    return {count > 0 || window.base == 0, window.base, count, whole};
  }
  const Key bin_base = window.base + (Key(shared.overflow) << window.shift);
  const Key bin_end = bin_base + (Key{1} << window.shift);
  const Key end = bin_end < window.end ? bin_end : window.end;
  const int shift = window.shift > kBinBits ? window.shift - kBinBits : 0;
  return {count * 4 >= limit, end, count, {bin_base, end, shift, count}};
}

}  // namespace farpoint::cuda::lazy
