// Farthest point search over the pruning tree of a block, whose warps meet once a search.
#pragma once

#include "cuda/fps/tree/picker.cuh"

namespace farpoint::cuda::tree {

// Farthest points of the warps. Two sets, used in turn: a warp may write its next record while a
// slower one still reads the last. Side by side, for one address: three instructions fewer a
// search.
struct Record {
  PointRow at;
  float distance;
};
using Records = Record[2][kFan];

// The farthest of all warps. One barrier; every thread gets the result.
template <class Rows>
__device__ Farthest block_farthest(const Farthest& mine, Records& records, int turn, int warps,
                                   int warp, int lane, Rows rows) {
  if (warps == 1) return mine;
  Record* const set = records[turn % 2];
  Record* const own = set + warp;
  if (lane == 0) {
    own->at = mine.at;
    own->distance = mine.distance;
  }
  __syncthreads();
  const float theirs = lane < warps ? set[lane].distance : 0.0f;
  return warp_farthest({theirs}, &set->at, sizeof(Record) / sizeof(PointRow), lane, rows);
}

// All warps of a block.
template <int kLevels, class Rows, int kBoxes>
struct BlockPicker {
  TreePicker<kLevels, Rows, kBoxes>& of_warp;
  Records& records;
  int warps, warp;

  __device__ Farthest farthest(int turn) {
    return block_farthest(of_warp.farthest(), records, turn, warps, warp, of_warp.lane(),
                          of_warp.rows());
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
