// The sampling loop of the kernels that keep a cloud in one block, whatever finds the farthest
// point. A picker offers, to all threads of the block together,
//   Farthest farthest(int turn)  the farthest point now, the lowest row on a tie; turns alternate
//   void apply(Point sample)     that point becomes a sample
#pragma once

#include "cuda/fps/tail.cuh"

namespace farpoint::cuda {

// A point and its row in the cloud, in one 16-byte word.
using PointRow = float4;
__device__ inline PointRow with_row(Point p, int row) {
  return make_float4(p.x, p.y, p.z, __int_as_float(row));
}
__device__ inline Point point_of(PointRow v) { return {v.x, v.y, v.z}; }
__device__ inline int row_of(PointRow v) { return __float_as_int(v.w); }

struct Farthest {
  float distance;  // squared
  PointRow at;
};

// The start, or the first finite row where it is not finite: the farthest of a picker without
// samples, to which every finite point is infinitely far.
__device__ inline PointRow first_sample(const Farthest& first, const Cloud& cloud) {
  const Point start = cloud.point(cloud.start);
  return is_finite(start) || first.distance == 0.0f ? with_row(start, cloud.start) : first.at;
}

// Returns the number of samples with a distance, which is still squared. A distance of zero always
// ends it, for then all finite points lie on samples.
template <class Picker>
__device__ int sample_with(Picker& picker, const Cloud& cloud, PointRow sample) {
  int32_t* const indices = threadIdx.x == 0 ? cloud.indices : nullptr;
  float* const distances = threadIdx.x == 0 ? cloud.distances : nullptr;
  // The last sample moves no later one: its update is only worth doing for the covering radius.
  // Through reductions: ptxas then knows that warps leave the loop as a whole.
  const int m = __reduce_max_sync(kAllLanes, cloud.m), updates = cloud.distances ? m : m - 1;
  const int index_base = cloud.index_base;
  const float enough = warp_max(fmaxf(cloud.enough, 0.0f));
  float left = infinity();
  int k = 0;
  while ((k < updates) & (k == 0 || left > enough)) {
    if (indices) indices[k] = index_base + row_of(sample);
    picker.apply(point_of(sample));
    const Farthest f = picker.farthest(k);
    left = f.distance;
    if (distances) distances[k] = left;
    sample = f.at;
    ++k;
  }
  if (k == m || (k > 0 && left <= enough)) return k;
  if (indices) indices[k] = index_base + row_of(sample);
  return m;
}

// Takes the roots of all distances at once, which would delay every sample in the loop, and appends
// the rows without a distance of their own, unless enough is sampled. `bits` has room for a bit a
// row.
__device__ inline void finish(const Cloud& cloud, int emitted, TailShared& shared, unsigned* bits) {
  __syncthreads();
  if (cloud.distances) {
    for (int k = threadIdx.x; k < emitted; k += blockDim.x) {
      cloud.put_distance(k, cloud.distances[k]);
    }
  }
  if (cloud.ends_early()) return clear_rest(cloud, emitted);
  append_tail(cloud, emitted, shared, bits);
}

}  // namespace farpoint::cuda
