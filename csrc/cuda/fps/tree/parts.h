// Host interface of the kernels that sample one cloud by several blocks, in parts.
#pragma once

#include <cuda_runtime.h>

#include "cuda/fps/fps.h"

namespace farpoint::cuda::tree {

struct Parts;
struct Storage;

constexpr int kMaxParts = 32;  // of a cloud: a bit and a lane for each
constexpr int kGroupPoints = 32 * 32;

// Most points of a part of a cloud, in whole leaves.
__host__ __device__ inline int64_t points_of_part(int64_t points, int parts) {
  return ((points + 31) / 32 + parts - 1) / parts * 32;
}
// A part has room for 1 << group_shift groups of 32 leaves.
inline int group_shift(int64_t points, int parts) {
  int shift = 0;
  while ((int64_t{kGroupPoints} << shift) < points_of_part(points, parts)) ++shift;
  return shift;
}

// Samples clouds whose leaves are made.
int run_parts(const FpsBatch& batch, const TreeShape& shape, const Storage& storage,
              const Parts& parts, int device, void* stream);
// Makes one sample of the parts' samples.
int merge_parts(const FpsBatch& batch, const Storage& storage, const Parts& parts, void* stream);

}  // namespace farpoint::cuda::tree
