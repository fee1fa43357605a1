// The lowest keys that a warp has seen, sorted across the registers of its lanes.
#pragma once

#include "cuda/neighbors/search.cuh"

namespace farpoint::cuda {

using Key = unsigned long long;
constexpr Key kNoKey = ~Key{0};

// Ordered by distance, then by row; rows that are not finite after all others.
__device__ inline Key key_of(Point p, Point query, bool query_finite, int row) {
  const float squared = squared_distance(p, query);
  unsigned bits = __float_as_uint(squared);
  if (!(squared <= 3.4028235e38f) || !query_finite) bits = kInfinity + !is_finite(p);
  return Key{bits} << 32 | static_cast<unsigned>(row);
}

// The lowest keys seen, sorted: place s * 32 + lane.
template <int kDepth>
struct WarpList {
  Key at[kDepth];

  __device__ void clear() {
#pragma unroll
    for (int s = 0; s < kDepth; ++s) at[s] = kNoKey;
  }

  __device__ Key highest(int size) const {
    Key held = at[0];
#pragma unroll
    for (int s = 1; s < kDepth; ++s) held = size > s * kWarp ? at[s] : held;
    return __shfl_sync(kAllLanes, held, (size - 1) % kWarp);
  }

  // Everything above the key moves up by one place.
  __device__ void insert(Key key) {
#pragma unroll
    for (int s = kDepth - 1; s >= 0; --s) {
      Key below = __shfl_up_sync(kAllLanes, at[s], 1);
      const Key carried = s > 0 ? __shfl_sync(kAllLanes, at[s > 0 ? s - 1 : 0], kWarp - 1) : 0;
      if (lane_id() == 0) below = carried;
      at[s] = at[s] < key ? at[s] : (below > key ? below : key);
    }
  }

  // All lanes' keys at once: the lower half of both, which is a bitonic sequence, sorted.
  __device__ void merge(Key mine) {
    const Key sorted = warp_sorted(mine);
    at[0] = min(at[0], __shfl_sync(kAllLanes, sorted, kWarp - 1 - lane_id()));
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const Key other = __shfl_xor_sync(kAllLanes, at[0], step);
      at[0] = (lane_id() & step) == 0 ? min(at[0], other) : max(at[0], other);
    }
  }

  __device__ void offer(Key mine, Key& limit, int size) {
    constexpr int kWorthSorting = 14;  // the instructions of a merge are those of 14 insertions
    unsigned votes = __ballot_sync(kAllLanes, mine < limit);
    if (votes == 0) return;  // by far most often, in a scan
    if (kDepth == 1 && __popc(votes) >= kWorthSorting) {
      merge(mine);
      limit = highest(size);
      return;
    }
    for (; votes != 0; votes &= votes - 1) {
      const Key key = __shfl_sync(kAllLanes, mine, __ffs(votes) - 1);
      if (key >= limit) continue;
      insert(key);
      limit = highest(size);
    }
  }
};

// Places without a neighbor hold no key; there the nearest row stands again.
template <int kDepth>
__device__ void write(const WarpList<kDepth>& list, int size, int32_t nearest, int32_t* rows,
                      float* squared) {
#pragma unroll
  for (int s = 0; s < kDepth; ++s) {
    const int place = s * kWarp + lane_id();
    if (place >= size) continue;
    rows[place] = list.at[s] == kNoKey ? nearest : static_cast<int32_t>(list.at[s]);
    const unsigned bits = static_cast<unsigned>(list.at[s] >> 32);
    squared[place] = __uint_as_float(min(bits, kInfinity));
  }
}

}  // namespace farpoint::cuda
