// Points of a block and their distances to the nearest sample, in registers.
#pragma once

#include "cuda/fps/argmax.cuh"
#include "cuda/fps/cloud.cuh"

namespace farpoint::cuda {

// A warp owns kItems * 32 consecutive rows. A distance is positive exactly while its point can
// still be the farthest: padding and non-finite points start at 0, and a sample is 0 from itself.
template <int kItems>
struct RegisterPoints {
  Point p[kItems];
  float d[kItems];
  int first;  // row of item 0; item i is row first + 32 * i

  // Rows [begin, end) of the cloud; `begin` is the block's first row.
  __device__ void load(const Cloud& cloud, int begin, int end) {
    first = begin + warp_id() * kItems * kWarp + lane_id();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int row = first + i * kWarp;
      p[i] = row < end ? cloud.point(row) : Point{0.0f, 0.0f, 0.0f};
      d[i] = row < end && is_finite(p[i]) ? infinity() : 0.0f;
    }
  }

  // fminf(0, NaN) is 0, so a non-finite point stays where it is.
  __device__ void update(Point sample) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) d[i] = fminf(d[i], squared_distance(p[i], sample));
  }

  __device__ Best best() const {
    float mine = d[0];
#pragma unroll
    for (int i = 1; i < kItems; ++i) mine = fmaxf(mine, d[i]);
    int item = 0;
#pragma unroll
    for (int i = kItems - 1; i > 0; --i) item = d[i] == mine ? i : item;
    item = d[0] == mine ? 0 : item;
    return warp_best(mine, warp_max(mine), first + item * kWarp);
  }
};

}  // namespace farpoint::cuda
