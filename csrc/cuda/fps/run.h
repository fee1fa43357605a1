// Runs farthest point sampling on a CUDA device with scratch memory from torch's allocator.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/fps/fps.h"

namespace farpoint {

// Samples `batch`, whose coordinates are those of `points`. Refuses a method that cannot take it.
void run_fps(const cuda::FpsBatch& batch, const at::Tensor& points, cuda::FpsMethod method,
             int warps = 0);

// Likewise in any number of dimensions, or in float64: contiguous rows of `points` that `layout`
// describes; empty `distances` are not wanted.
void run_fps_by_brute_force(const cuda::FpsBatch& layout, const at::Tensor& points,
                            const at::Tensor& distances);

}  // namespace farpoint
