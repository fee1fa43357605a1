// One pass of a stable radix sort within a block: where the keys of a tile go by one of their
// digits.
#pragma once

#include "cuda/common/device.cuh"

namespace farpoint::cuda::tree {

// What a block sorts at once. Each of its warps has a consecutive section of the keys, and a lane
// of it every 32nd of these, in registers.
template <int kThreads_, int kItems_, int kDigitBits_>
struct Tile {
  static constexpr int kThreads = kThreads_, kItems = kItems_, kDigitBits = kDigitBits_;
  static constexpr int kWarps = kThreads / kWarp, kKeys = kThreads * kItems;
  static constexpr int kDigits = 1 << kDigitBits, kPairs = kDigits / 2;
  static_assert(kPairs <= kThreads && kPairs % kWarp == 0);
  static_assert(kKeys < 1 << 16, "two counts share a word");

  struct Section {
    union {
      unsigned short of_digit[kDigits];  // keys so far, then where the first of them goes
      unsigned of_pair[kPairs];
    };
  };
  struct Counts {
    Section of_warp[kWarps];
    int of_scan[kWarps];
  };
};

// Sum of `mine` over the threads before this one. One barrier.
__device__ inline int sum_before(int* of_scan, int mine) {
  int sum = mine;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    sum += lane_id() >= step ? other : 0;
  }
  if (lane_id() == kWarp - 1) of_scan[warp_id()] = sum;
  __syncthreads();
  for (int w = 0; w < warp_id(); ++w) sum += of_scan[w];
  return sum - mine;
}

// Calls visit(k) for the lane's first `steps` keys, a multiple of kTogether.
constexpr int kTogether = 4;
template <class T, typename Visit>
__device__ void each_key(int steps, Visit visit) {
#pragma unroll
  for (int group = 0; group < T::kItems; group += kTogether) {
    if (group >= steps) continue;
#pragma unroll
    for (int k = group; k < group + kTogether; ++k) visit(k);
  }
}

// Ranks of the lane's keys among those of their section that have the same digit.
template <class T, typename DigitOf>
__device__ void count_digits(typename T::Section& own, DigitOf digit_of, int steps,
                             int (&rank)[T::kItems]) {
  for (int pair = lane_id(); pair < T::kPairs; pair += kWarp) own.of_pair[pair] = 0;
  __syncwarp();
  each_key<T>(steps, [&](int k) {
    const int digit = digit_of(k);
    const unsigned equal = __match_any_sync(kAllLanes, digit);
    rank[k] = own.of_digit[digit] + __popc(equal & lanes_below());
    __syncwarp();
    const bool is_last = (equal & ~lanes_below()) == lanes_below() + 1u;
    if (is_last) own.of_digit[digit] = static_cast<unsigned short>(rank[k] + 1);
    __syncwarp();
  });
  __syncthreads();
}

// Turns counts into places, smaller digits first, then the sections in their order.
template <class T>
__device__ void assign_places(typename T::Counts& counts) {
  const int pair = static_cast<int>(threadIdx.x);
  unsigned sum = 0;
  if (pair < T::kPairs) {
#pragma unroll 8
    for (int w = 0; w < T::kWarps; ++w) sum += counts.of_warp[w].of_pair[pair];
  }
  const unsigned low = sum & 0xffffu;
  const unsigned before = sum_before(counts.of_scan, static_cast<int>(low + (sum >> 16)));
  unsigned place = before | (before + low) << 16;
  if (pair < T::kPairs) {
#pragma unroll 8
    for (int w = 0; w < T::kWarps; ++w) {
      const unsigned count = counts.of_warp[w].of_pair[pair];
      counts.of_warp[w].of_pair[pair] = place;
      place += count;
    }
  }
  __syncthreads();
}

// Places of the lane's keys in the sorted tile. Between this and the next call lies a barrier.
template <class T, typename DigitOf>
__device__ void find_places(typename T::Counts& counts, DigitOf digit_of, int steps,
                            int (&place)[T::kItems]) {
  typename T::Section& own = counts.of_warp[warp_id()];
  count_digits<T>(own, digit_of, steps, place);
  assign_places<T>(counts);
  each_key<T>(steps, [&](int k) { place[k] += own.of_digit[digit_of(k)]; });
}

}  // namespace farpoint::cuda::tree
