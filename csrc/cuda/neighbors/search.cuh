// Access to clouds and queries in the search kernels.
#pragma once

#include <cassert>

#include "cuda/common/device.cuh"
#include "cuda/common/launch.cuh"
#include "cuda/neighbors/neighbors.h"

namespace farpoint::cuda {

constexpr unsigned kInfinity = 0x7f800000u;  // as the bits of a distance

struct SearchCloud {
  const float* xyz;
  int n;
};

__device__ inline SearchCloud search_cloud(const SearchBatch& batch, int64_t b) {
  const int64_t n = batch.lengths ? batch.lengths[b] : batch.points;
  assert(n >= 0 && n <= batch.points && "lengths: a cloud is longer than xyz");
  return {static_cast<const float*>(batch.xyz) + 3 * b * batch.points, static_cast<int>(n)};
}

__device__ inline Point query_point(const SearchBatch& batch, int64_t query) {
  return load_point(static_cast<const float*>(batch.queries), query);
}

// The squared radii of cloud b.
template <class Real>
__device__ Shell<Real> shell_of(const Shell<Real>& shell, int64_t b) {
  if (!shell.radii) return shell;
  const Real inner = shell.radii[2 * b], outer = shell.radii[2 * b + 1];
  assert(inner >= 0 && inner < outer && "radius: expected 0 <= min_radius < radius");
  return {inner * inner, outer * outer};
}

struct Ball {
  Point center;
  float inner, limit;  // squared

  // A distance to or from what is not finite is infinite or NaN, so never less.
  __device__ bool holds(Point p) const {
    const float squared = squared_distance(p, center);
    return squared < limit && (squared >= inner || squared == 0);
  }
};

struct BallList {
  int32_t* rows;  // (k)
  int k;
  int hits = 0;
  int32_t first = 0;

  // Rows of the lanes that have one, which ascend with the lane and follow those before.
  __device__ void append(int32_t row, bool has_one) {
    const unsigned votes = __ballot_sync(kAllLanes, has_one);
    if (votes == 0) return;
    if (hits == 0) first = __shfl_sync(kAllLanes, row, __ffs(static_cast<int>(votes)) - 1);
    const int place = hits + __popc(votes & lanes_below());
    if (has_one && place < k) rows[place] = row;
    hits = min(hits + __popc(votes), k);
  }

  // All rows of a cloud, in order, until the list is full.
  __device__ void scan(const Ball& ball, const SearchCloud& cloud) {
    for (int begin = 0; begin < cloud.n && hits < k; begin += kWarp) {
      const int row = begin + lane_id();
      append(row, row < cloud.n && ball.holds(load_point(cloud.xyz, row)));
    }
  }

  // The first row again in the places left.
  __device__ void finish(int32_t* found) const {
    for (int place = hits + lane_id(); place < k; place += kWarp) rows[place] = first;
    if (lane_id() == 0) *found = hits;
  }
};

// In float64 a thread per query looks at every row.
constexpr int kWideThreads = 128;

struct WideSearch {
  const double* xyz;
  const double* query;
  int n;

  // Not less than anything where a coordinate is not finite.
  __device__ double squared(int row) const {
    const double* const p = xyz + 3 * int64_t{row};
    double sum = 0;
    for (int d = 0; d < 3; ++d) {
      const double apart = p[d] - query[d];
      sum = fma(apart, apart, sum);
    }
    return sum;
  }
};

__device__ inline WideSearch wide_search(const SearchBatch& batch, int64_t query) {
  const int64_t b = query / batch.queries_per_cloud;
  const int64_t n = batch.lengths ? batch.lengths[b] : batch.points;
  assert(n >= 0 && n <= batch.points && "lengths: a cloud is longer than xyz");
  return {static_cast<const double*>(batch.xyz) + 3 * b * batch.points,
          static_cast<const double*>(batch.queries) + 3 * query, static_cast<int>(n)};
}

__device__ inline int64_t query_of_thread() {
  return int64_t{blockIdx.x} * kWideThreads + threadIdx.x;
}

inline LaunchShape wide_shape(const SearchBatch& batch) {
  return {ceil_div(batch.batch * batch.queries_per_cloud, kWideThreads), kWideThreads};
}

}  // namespace farpoint::cuda
