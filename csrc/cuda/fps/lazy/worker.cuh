// State of one thread block that works on a cloud in the lazy kernel.
#pragma once

#include "cuda/fps/lazy/state.cuh"

namespace farpoint::cuda::lazy {

// Addresses are made anew from what is at hand, for the head needs the registers.
struct Worker {
  Shared& shared;
  const Scratch& scratch;
  int own;   // group
  int b;     // cloud
  int turn;  // of the histograms

  __device__ CloudState& state() const { return scratch.clouds[b]; }
  __device__ HeadList& head() const { return scratch.heads[own]; }
  __device__ float4* points() const { return scratch.points + cloud().first_row; }
  __device__ float* nearest() const { return scratch.nearest + cloud().first_row; }
  __device__ const Cloud& cloud() const { return shared.cloud; }
  __device__ bool leads() const { return shared.group.rank == 0; }
  __device__ bool writes() const { return leads() && threadIdx.x == 0; }

  // Calls visit(position, whether it is a point) for this thread's place in each of the block's
  // tiles, all threads together.
  template <typename Visit>
  __device__ void each_tile(Visit visit) const {
    const int stride = static_cast<int>(shared.group.blocks) * kThreads;
    for (int begin = shared.group.rank * kThreads; begin < cloud().n; begin += stride) {
      const int position = begin + static_cast<int>(threadIdx.x);
      visit(position, position < cloud().n);
    }
  }
};

// One atomic per block.
__device__ inline void offer(Worker& w, Key* word, Key mine) {
  mine = warp_largest(mine);
  __syncthreads();
  if (lane_id() == 0) w.shared.keys[warp_id()] = mine;
  __syncthreads();
  if (warp_id() != 0) return;
  mine = warp_largest(lane_id() < kWarps ? w.shared.keys[lane_id()] : 0);
  if (lane_id() == 0 && distance_bits(mine) != 0) atomicMax(word, mine);
}

}  // namespace farpoint::cuda::lazy
