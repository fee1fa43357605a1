// The sampling loop of the kernels that keep a cloud in one block, whatever finds the farthest
// point. A picker offers, to all threads of the block together,
//   Farthest farthest(int turn)  the farthest point now, the lowest row on a tie; turns alternate
//   void apply(Point sample)     that point becomes a sample
#pragma once

#include "cuda/fps/cloud.cuh"

namespace farpoint::cuda {

struct TailShared {
  int of_warp[kWarp];  // as many warps as a block can have
};

// Appends the rows for which is_left(row) holds, ascending; returns how many samples there are now.
template <typename IsLeft>
__device__ int append_rows(const Cloud& cloud, int emitted, TailShared& shared, IsLeft is_left) {
  const int threads = blockDim.x;
  for (int begin = 0; begin < cloud.n && emitted < cloud.m; begin += threads) {
    const int row = begin + static_cast<int>(threadIdx.x);
    const bool left = row < cloud.n && is_left(row);
    const unsigned votes = __ballot_sync(kAllLanes, left);
    __syncthreads();
    if (lane_id() == 0) shared.of_warp[warp_id()] = __popc(votes);
    __syncthreads();
    int rank = emitted + __popc(votes & lanes_below());
    for (int w = 0; w < threads / kWarp; ++w) {
      rank += w < warp_id() ? shared.of_warp[w] : 0;
      emitted += shared.of_warp[w];
    }
    if (left && rank < cloud.m) {
      cloud.put_index(rank, row);
      cloud.put_distance(rank, 0.0f);
    }
  }
  return emitted;
}

// `taken(row)` is whether the row is among the samples so far.
template <typename IsTaken>
__device__ void append_tail(const Cloud& cloud, int emitted, TailShared& shared, IsTaken is_taken) {
  emitted = append_rows(cloud, emitted, shared,
                        [&](int row) { return is_finite(cloud.point(row)) && !is_taken(row); });
  append_rows(cloud, emitted, shared,
              [&](int row) { return !is_finite(cloud.point(row)) && !is_taken(row); });
}

// Of a cloud that ended early.
__device__ inline void clear_rest(const Cloud& cloud, int emitted) {
  for (int k = emitted + static_cast<int>(threadIdx.x); k < cloud.m; k += blockDim.x) {
    cloud.indices[k] = -1;
    cloud.put_distance(k, 0.0f);
  }
}

// The same where the samples are marked in a bit for each row, which `bits` has room for.
__device__ inline void append_tail(const Cloud& cloud, int emitted, TailShared& shared,
                                   unsigned* bits) {
  if (emitted == cloud.m) return;
  for (int i = threadIdx.x; i <= (cloud.n - 1) / kWarp; i += blockDim.x) bits[i] = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < emitted; k += blockDim.x) {
    const int row = cloud.indices[k] - cloud.index_base;
    atomicOr(&bits[row / kWarp], 1u << row % kWarp);
  }
  __syncthreads();
  append_tail(cloud, emitted, shared,
              [&](int row) { return (bits[row / kWarp] >> row % kWarp & 1u) != 0; });
}

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
  const float stop_squared = warp_max(fmaxf(cloud.stop_squared, 0.0f));
  float left = infinity();
  int k = 0;
  while ((k < updates) & (k == 0 || left > stop_squared)) {
    if (indices) indices[k] = index_base + row_of(sample);
    picker.apply(point_of(sample));
    const Farthest f = picker.farthest(k);
    left = f.distance;
    if (distances) distances[k] = left;
    sample = f.at;
    ++k;
  }
  if (k == m || (k > 0 && left <= stop_squared)) return k;
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
