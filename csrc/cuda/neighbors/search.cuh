// Access to clouds and queries in the search kernels.
#pragma once

#include <cassert>

#include "cuda/common/device.cuh"
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

}  // namespace farpoint::cuda
