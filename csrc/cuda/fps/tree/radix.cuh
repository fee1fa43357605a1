// One pass of a stable radix sort of keys and rows: an eight-bit digit, by one or several blocks.
#pragma once

#include "cuda/common/device.cuh"

namespace farpoint::cuda::tree {

constexpr int kSortThreads = 512;
constexpr int kSortWarps = kSortThreads / kWarp;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kPasses = 4;  // even: the last one ends in the memory in which the first one begins
static_assert(kDigits <= kSortThreads);

// A block sorts a consecutive piece of a cloud, each of its warps a consecutive section of that.
struct DigitCounts {
  int of_warp[kSortWarps][kDigits];  // keys of a section, then where the next of them goes
  int of_scan[kDigits / kWarp];
};

template <typename Row>
struct Items {
  unsigned* keys;
  Row* rows;
};

struct Range {
  int begin, end;
};

__device__ inline unsigned digit_of(unsigned key, int pass) {
  return key >> kDigitBits * pass & (kDigits - 1);
}

__device__ inline Range section_of(Range piece) {
  const int count = piece.end - piece.begin;
  const int steps = (count + kSortThreads - 1) / kSortThreads;
  const int begin = min(piece.begin + warp_id() * steps * kWarp, piece.end);
  return {begin, min(begin + steps * kWarp, piece.end)};
}

// Calls visit(position or -1, digit, place) for the keys of the warp's section, 32 together: the
// place counts up for each digit from what `next` holds.
template <typename Visit>
__device__ void each_place(const unsigned* keys, Range section, int pass, int* next, Visit visit) {
  for (int first = section.begin; first < section.end; first += kWarp) {
    const int i = first + lane_id();
    const bool held = i < section.end;
    const unsigned digit = held ? digit_of(keys[i], pass) : kDigits;
    const unsigned equal = __match_any_sync(kAllLanes, digit);
    const unsigned before = equal & lanes_below();
    const int begin = held ? next[digit] : 0;
    __syncwarp();
    if (held && before == 0) next[digit] = begin + __popc(equal);
    __syncwarp();
    if (held) visit(i, begin + __popc(before));
  }
}

__device__ inline void count_digits(DigitCounts& counts, const unsigned* keys, Range piece,
                                    int pass) {
  int* const own = counts.of_warp[warp_id()];
  for (int d = lane_id(); d < kDigits; d += kWarp) own[d] = 0;
  __syncwarp();
  each_place(keys, section_of(piece), pass, own, [](int, int) {});
  __syncthreads();
}

// Keys of the thread's digit in the block's piece; 0 for threads without one.
__device__ inline int count_of_block(const DigitCounts& counts) {
  int sum = 0;
  if (threadIdx.x < kDigits) {
    for (int w = 0; w < kSortWarps; ++w) sum += counts.of_warp[w][threadIdx.x];
  }
  return sum;
}

// Sum of `mine` over the threads before this one; of the first kDigits threads.
__device__ inline int sum_before(DigitCounts& counts, int mine) {
  int sum = mine;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    sum += lane_id() >= step ? other : 0;
  }
  if (threadIdx.x < kDigits && lane_id() == kWarp - 1) counts.of_scan[warp_id()] = sum;
  __syncthreads();
  for (int w = 0; w < warp_id() && w < kDigits / kWarp; ++w) sum += counts.of_scan[w];
  return sum - mine;
}

// Turns counts into places. `total` keys of the thread's digit are in the whole cloud, `before` of
// them in the pieces before this one.
__device__ inline void assign_places(DigitCounts& counts, int total, int before) {
  int place = sum_before(counts, total) + before;
  if (threadIdx.x < kDigits) {
    for (int w = 0; w < kSortWarps; ++w) {
      const int count = counts.of_warp[w][threadIdx.x];
      counts.of_warp[w][threadIdx.x] = place;
      place += count;
    }
  }
  __syncthreads();
}

template <typename Row>
__device__ void move_items(DigitCounts& counts, Items<Row> from, Items<Row> to, Range piece,
                           int pass) {
  each_place(from.keys, section_of(piece), pass, counts.of_warp[warp_id()], [&](int i, int place) {
    to.keys[place] = from.keys[i];
    to.rows[place] = from.rows[i];
  });
}

}  // namespace farpoint::cuda::tree
