// Distance updates of the lazy kernel: applies the pending samples to one tile of points.
//
// A sample can only matter to a box of points when it is nearer to the box than the box's largest
// distance. The bound is exact: rounding is monotonic, so no point of the box is computed to be
// nearer than the box itself by the same formula.
#pragma once

#include "cuda/common/ordered_float.cuh"
#include "cuda/fps/lazy/state.cuh"

namespace farpoint::cuda::lazy {

constexpr int kWorthPruning = 8;  // pending samples

__device__ inline float warp_lowest(float v) {
  return from_ordered(__reduce_min_sync(kAllLanes, ordered(v)));
}
__device__ inline float warp_highest(float v) {
  return from_ordered(__reduce_max_sync(kAllLanes, ordered(v)));
}

__device__ inline Box warp_box(const Box& mine) {
  return {{warp_lowest(mine.low.x), warp_lowest(mine.low.y), warp_lowest(mine.low.z)},
          {warp_highest(mine.high.x), warp_highest(mine.high.y), warp_highest(mine.high.z)},
          warp_max(mine.nearest)};
}

__device__ inline Box empty_box() {
  const float inf = infinity();
  return {{inf, inf, inf}, {-inf, -inf, -inf}, 0.0f};
}

__device__ inline float outside(float s, float low, float high) {
  return fmaxf(fmaxf(__fsub_rn(low, s), __fsub_rn(s, high)), 0.0f);
}

__device__ inline bool may_reach(const Box& box, Point s) {
  const float dx = outside(s.x, box.low.x, box.high.x);
  const float dy = outside(s.y, box.low.y, box.high.y);
  const float dz = outside(s.z, box.low.z, box.high.z);
  return __fmaf_rn(dz, dz, __fmaf_rn(dy, dy, __fmul_rn(dx, dx))) < box.nearest;
}

// The pending samples that may reach the tile, in no particular order.
__device__ inline void keep_near(FlushShared& shared, const Box& tile, int pending) {
  for (int begin = 0; begin < pending; begin += kThreads) {
    const int j = begin + static_cast<int>(threadIdx.x);
    const bool near = j < pending && may_reach(tile, point_of(shared.pending[j]));
    const unsigned votes = __ballot_sync(kAllLanes, near);
    int first = 0;
    if (lane_id() == 0) first = atomicAdd(&shared.near_count, __popc(votes));
    first = __shfl_sync(kAllLanes, first, 0);
    if (near) shared.near_tile[first + __popc(votes & lanes_below())] = shared.pending[j];
  }
}

__device__ inline float apply(Point p, float nearest, const float4* samples, unsigned votes) {
  if (votes == kAllLanes) {
#pragma unroll 8
    for (int j = 0; j < kWarp; ++j) {
      nearest = fminf(nearest, squared_distance(p, point_of(samples[j])));
    }
    return nearest;
  }
  for (; votes != 0; votes &= votes - 1) {
    nearest = fminf(nearest, squared_distance(p, point_of(samples[__ffs(votes) - 1])));
  }
  return nearest;
}

__device__ inline float apply_near(Point p, float nearest, Box box, const FlushShared& shared,
                                   int count) {
  for (int begin = 0; begin < count; begin += kWarp) {
    const int j = begin + lane_id();
    const bool near = j < count && may_reach(box, point_of(shared.near_tile[j]));
    const unsigned votes = __ballot_sync(kAllLanes, near);
    if (votes == 0) continue;
    nearest = apply(p, nearest, shared.near_tile + begin, votes);
    box.nearest = warp_max(nearest);
  }
  return nearest;
}

// The distance of this thread's point after `pending` samples. The whole block takes part.
__device__ inline float flush_tile(Point p, float nearest, FlushShared& shared, int pending) {
  if (pending < kWorthPruning) {
    for (int j = 0; j < pending; ++j) {
      nearest = fminf(nearest, squared_distance(p, point_of(shared.pending[j])));
    }
    return nearest;
  }
  const bool counts = nearest > 0.0f;
  const Box box = warp_box(counts ? Box{p, p, nearest} : empty_box());
  if (lane_id() == 0) shared.boxes[warp_id()] = box;
  if (threadIdx.x == 0) shared.near_count = 0;
  __syncthreads();
  const Box tile = warp_box(lane_id() < kWarps ? shared.boxes[lane_id()] : empty_box());
  keep_near(shared, tile, pending);
  __syncthreads();
  nearest = apply_near(p, nearest, box, shared, shared.near_count);
  __syncthreads();
  return nearest;
}

}  // namespace farpoint::cuda::lazy
