// Points of a cloud and their distances to the nearest sample, in registers.
#pragma once

#include "cuda/fps/argmax.cuh"
#include "cuda/fps/cloud.cuh"

namespace farpoint::cuda {

// Distances order as their bits do, being neither negative nor NaN, and two maxima of integers are
// one instruction from sm_90 on.
template <int kCount>
__device__ float largest_of(const float* distances) {
  int bits = __float_as_int(distances[0]);
#pragma unroll
  for (int i = 1; i < kCount; ++i) bits = max(bits, __float_as_int(distances[i]));
  return __int_as_float(bits);
}

// A warp owns kItems * 32 consecutive rows. A distance is positive exactly while its point can
// still be the farthest: padding and non-finite points start at 0, and a sample is 0 from itself.
template <int kItems>
struct RegisterPoints {
  static constexpr int kGroup = 8, kGroups = kItems / kGroup;
  static_assert(kItems % kGroup == 0);

  Point p[kItems];
  float d[kItems];
  int first;  // row of item 0; item i is row first + 32 * i

  // The cloud, and a copy of its points, with zeros behind the last, in `copy`.
  __device__ void load(const Cloud& cloud, Point* copy) {
    first = warp_id() * kItems * kWarp + lane_id();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int row = first + i * kWarp;
      p[i] = cloud.point(min(row, cloud.n - 1));
      d[i] = row < cloud.n && is_finite(p[i]) ? infinity() : 0.0f;
      copy[row] = p[i];
    }
  }

  // fminf(0, NaN) is 0, so a non-finite point stays where it is.
  __device__ void update(Point sample) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) d[i] = fminf(d[i], squared_distance(p[i], sample));
  }

  __device__ Best best() const {
    float of_group[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) of_group[g] = largest_of<kGroup>(d + g * kGroup);
    const float largest = warp_max(largest_of<kGroups>(of_group));
    return {largest, warp_min(first + offset_of<0>(largest, of_group))};
  }

 private:
  // From the row of item 0 to this lane's lowest row at the largest distance, far away where it has
  // none. Rows ascend with groups, so only the first group with such a row in any lane is searched:
  // comparing every item would cost a fifth of the step.
  template <int kFrom>
  __device__ int offset_of(float largest, const float (&of_group)[kGroups]) const {
    if constexpr (kFrom + 1 < kGroups) {
      if (!__any_sync(kAllLanes, of_group[kFrom] == largest)) {
        return offset_of<kFrom + 1>(largest, of_group);
      }
    }
    constexpr int kFarAway = 1 << 30;
    int offset = kFarAway;
#pragma unroll
    for (int i = (kFrom + 1) * kGroup; i-- > kFrom * kGroup;) {
      offset = d[i] == largest ? i * kWarp : offset;
    }
    return offset;
  }
};

}  // namespace farpoint::cuda
