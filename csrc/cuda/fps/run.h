// Runs farthest point sampling on a CUDA device with scratch memory from torch's allocator.
#pragma once

#include <ATen/core/Tensor.h>

#include "cuda/fps/fps.h"

namespace farpoint {

// Samples `batch`, whose coordinates are those of `points`. Refuses a method that cannot take it.
void run_fps(const cuda::FpsBatch& batch, const at::Tensor& points, cuda::FpsMethod method,
             int warps = 0);

}  // namespace farpoint
