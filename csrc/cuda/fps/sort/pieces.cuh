// Clouds in pieces, a block for each.
#pragma once

#include "cuda/fps/cloud.cuh"

namespace farpoint::cuda::tree {

// The block's piece of a cloud that `pieces` blocks share.
struct Piece {
  Cloud cloud;
  int b, part;
  int begin, end;
};

__device__ inline Piece piece_of(const FpsBatch& batch, int pieces) {
  const int b = blockIdx.x / pieces, part = blockIdx.x % pieces;
  const Cloud cloud = cloud_of(batch, b);
  const int size = cloud.n / pieces + 1;
  const auto bound = [&](int p) {
    return static_cast<int>(min(int64_t{p} * size, int64_t{cloud.n}));
  };
  return {cloud, b, part, bound(part), bound(part + 1)};
}

}  // namespace farpoint::cuda::tree
