// Farthest point search over the pruning tree of a block, whose warps meet once a search.
#pragma once

#include "cuda/fps/tree/picker.cuh"

namespace farpoint::cuda::tree {

// Farthest points of the warps. Two sets, used in turn: a warp may write its next record while a
// slower one still reads the last.
struct Records {
  PointRow at[2][kFan];
  float distance[2][kFan];
};

// The farthest of all warps. One barrier; every thread gets the result.
__device__ inline Farthest block_farthest(const Farthest& mine, Records& records, int turn,
                                          int warps) {
  if (warps == 1) return mine;
  PointRow* const at = records.at[turn % 2];
  float* const distance = records.distance[turn % 2];
  if (lane_id() == 0) {
    at[warp_id()] = mine.at;
    distance[warp_id()] = mine.distance;
  }
  __syncthreads();
  return warp_farthest(lane_id() < warps ? distance[lane_id()] : 0.0f, at);
}

// All warps of a block.
template <int kLevels>
struct BlockPicker {
  TreePicker<kLevels>& of_warp;
  Records& records;
  int warps;

  __device__ Farthest farthest(int turn) {
    return block_farthest(of_warp.farthest(), records, turn, warps);
  }
  __device__ void apply(Point sample) { of_warp.apply(sample); }
};

// Where the nodes of this warp begin, level by level.
template <int kLevels>
__device__ void find_nodes(const Storage& storage, Node* in_shared, int64_t first, int warp,
                           Node* (&nodes)[kMaxLevels - 1]) {
  for (int l = 0; l < kLevels - 1; ++l) {
    Node* const of_cloud = in_shared ? in_shared : storage.nodes[l] + first;
    nodes[l] = of_cloud + warp;
  }
}

}  // namespace farpoint::cuda::tree
