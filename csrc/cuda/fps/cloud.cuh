// One cloud of a batch in device code: its points, and where its indices and distances go.
#pragma once

#include <cassert>

#include "cuda/common/device.cuh"
#include "cuda/fps/fps.h"

namespace farpoint::cuda {

struct Cloud {
  const float* xyz;
  int64_t first_row;
  int n;
  int m;
  int start;
  int index_base;      // added to a local row in the output
  float stop_squared;  // squared distance at which sampling ends early; negative: nowhere
  int32_t* indices;
  float* distances;

  __device__ bool ends_early() const { return stop_squared >= 0.0f; }
  __device__ Point point(int row) const { return load_point(xyz, row); }
  __device__ void put_index(int k, int row) const { indices[k] = index_base + row; }
  __device__ void put_distance(int k, float squared) const {
    if (distances) distances[k] = __fsqrt_rn(squared);
  }
  // The last sample moves no later one; its update is only worth doing for the covering radius.
  __device__ bool is_done(int k) const { return k + 1 == m && !distances; }
};

// The largest number whose root is at most the radius, so that squares compare as distances do.
__device__ inline float largest_square(float radius) {
  if (!(radius >= 0.0f)) return -1.0f;
  if (!is_finite(radius)) return infinity();
  const auto moved = [](float v, int by) { return __int_as_float(__float_as_int(v) + by); };
  float square = fminf(__fmul_rn(radius, radius), moved(infinity(), -1));
  while (__fsqrt_rn(square) > radius) square = moved(square, -1);
  while (__fsqrt_rn(moved(square, 1)) <= radius) square = moved(square, 1);
  return square;
}

// The sizes that the host gave, for which grids, scratch memory and outputs were made. A device
// assertion ends every kernel of the context, as one in torch's own gather does.
__device__ inline void check_sizes(const FpsBatch& batch, const Cloud& cloud,
                                   int64_t first_sample) {
  assert(cloud.n <= batch.max_points && "furthest_point_sample: a cloud exceeds max_points");
  assert(cloud.m <= batch.max_samples && "furthest_point_sample: more samples than max_samples");
  assert(cloud.m <= cloud.n && "furthest_point_sample: more samples than points");
  assert(cloud.first_row >= 0 && cloud.first_row + cloud.n <= batch.rows &&
         "furthest_point_sample: offsets go beyond xyz");
  assert(cloud.m >= 0 && first_sample >= 0 && first_sample + cloud.m <= batch.samples &&
         "furthest_point_sample: sample_offsets go beyond the output");
  assert((cloud.m == 0 || (cloud.start >= 0 && cloud.start < cloud.n)) &&
         "furthest_point_sample: start is not a row of its cloud");
}

// In a kernel behind one that has checked the sizes. An assertion is a call, after which ptxas
// holds no warp for converged any more: each vote and reduction would be two instructions more.
__device__ inline Cloud checked_cloud(const FpsBatch& batch, int b) {
  Cloud cloud;
  const int64_t* const offsets = batch.offsets;
  cloud.first_row = offsets ? offsets[b] : int64_t{b} * batch.max_points;
  const int64_t padded = batch.lengths ? batch.lengths[b] : batch.max_points;
  cloud.n = static_cast<int>(offsets ? offsets[b + 1] - offsets[b] : padded);
  const int64_t* const samples = batch.sample_offsets;
  const int64_t first_sample = samples ? samples[b] : int64_t{b} * batch.max_samples;
  cloud.m = static_cast<int>(samples ? samples[b + 1] - samples[b] : batch.max_samples);
  cloud.start = batch.start ? static_cast<int>(batch.start[b]) : 0;
  cloud.xyz = batch.xyz + 3 * cloud.first_row;
  cloud.index_base = offsets ? static_cast<int>(cloud.first_row) : 0;
  cloud.stop_squared = batch.radius ? largest_square(batch.radius[b]) : -1.0f;
  cloud.indices = batch.indices + first_sample;
  cloud.distances = batch.distances ? batch.distances + first_sample : nullptr;
  return cloud;
}

__device__ inline Cloud cloud_of(const FpsBatch& batch, int b) {
  const Cloud cloud = checked_cloud(batch, b);
  check_sizes(batch, cloud, cloud.indices - batch.indices);
  return cloud;
}

}  // namespace farpoint::cuda
