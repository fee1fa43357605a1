// Barrier across several resident blocks, through one word of global memory.
#pragma once

#include "cuda/common/device.cuh"

namespace farpoint::cuda {

// The blocks that work on one cloud, as an object in each block's shared memory. Every block must
// meet every barrier.
struct BlockGroup {
  unsigned* arrived;  // counts up for ever, starting from 0
  unsigned target;
  unsigned blocks;
  unsigned rank;

  // Also a __syncthreads. What any block wrote before is seen by all of them after.
  __device__ void sync() {
    __syncthreads();
    if (blocks > 1 && threadIdx.x == 0) {
      target += blocks;
      add_release(arrived, 1u);
      while (static_cast<int>(load_acquire(arrived) - target) < 0) spin();
    }
    __syncthreads();
  }
};

}  // namespace farpoint::cuda
