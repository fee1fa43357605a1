// Last samples of a cloud in the lazy kernel, once every finite point lies on a sample.
#pragma once

#include "cuda/fps/lazy/worker.cuh"

namespace farpoint::cuda::lazy {

// Every finite point lies on a sample: the leading block writes the rest. Distances are needed no
// more, so their memory marks the rows that are taken.
__device__ inline void write_tail(Worker& w, int emitted) {
  const Cloud& cloud = w.cloud();
  for (int row = threadIdx.x; row < cloud.n; row += kThreads) w.nearest()[row] = 0.0f;
  __syncthreads();
  for (int k = threadIdx.x; k < emitted; k += kThreads) {
    w.nearest()[cloud.indices[k] - cloud.index_base] = -1.0f;
  }
  __syncthreads();
  const float* const nearest = w.nearest();
  append_tail(cloud, emitted, w.shared.tail, [&](int row) { return nearest[row] < 0.0f; });
}

// No finite point at all: the start row, then the others.
__device__ inline void write_all(Worker& w) {
  if (threadIdx.x == 0) {
    w.cloud().put_index(0, w.cloud().start);
    w.cloud().put_distance(0, 0.0f);
  }
  write_tail(w, 1);
}

}  // namespace farpoint::cuda::lazy
