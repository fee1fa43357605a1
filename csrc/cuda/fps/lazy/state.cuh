// Global and shared memory of the lazy kernel.
#pragma once

#include "cuda/common/block_group.cuh"
#include "cuda/fps/argmax.cuh"
#include "cuda/fps/argmax_key.cuh"
#include "cuda/fps/cloud.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/tail.cuh"

namespace farpoint::cuda::lazy {

constexpr int kThreads = 512;  // a tile is one point per thread
constexpr int kWarps = kThreads / kWarp;
constexpr int kHeadThreads = 128;
constexpr int kMaxHead = kMaxHeadPoints;
constexpr int kBins = 1024;
constexpr int kTurns = 3;  // one in use, one read by slower blocks, one being cleared

// Of one cloud, in global memory, zero at launch.
struct CloudState {
  Key words[kTurns];
  int histograms[kTurns][kBins];
  int collected;
  int emitted;  // samples so far, or kFinished
};
constexpr int kFinished = -1;

// The points near the top, of one group of blocks.
struct HeadList {
  float4 points[kMaxHead];  // x, y, z and the row's bits
  float nearest[kMaxHead];
};

struct Scratch {
  CloudState* clouds;
  unsigned* arrived;  // one per group
  HeadList* heads;    // one per group
  float4* points;     // (rows) in tile order: x, y, z and the row's bits
  float* nearest;     // (rows) in tile order
};

struct Box {
  Point low, high;
  float nearest;  // largest of the box
};

struct HeadBest {
  float distance;
  int row;
  int slot;
};

struct Served {
  int emitted;     // samples of the cloud so far
  bool finished;   // all samples, and the last distance when it is wanted
  bool exhausted;  // no point has a positive distance left
};

struct HeadShared {
  Point points[kMaxHead];
  HeadBest of_warp[2][kHeadThreads / kWarp];
};

struct FlushShared {
  float4 pending[kMaxHead];
  float4 near_tile[kMaxHead];
  Box boxes[kWarps];
  int near_count;
};

struct SelectShared {
  int histogram[kBins];
  int of_warp[kWarps];
  int overflow;
  int before_overflow;
};

struct Shared {
  // Here, not in registers: the head needs those.
  Cloud cloud;
  BlockGroup group;
  union {
    HeadShared head;
    FlushShared flush;
  };
  SelectShared select;
  TailShared tail;
  Key keys[kWarps];
  Served served;
};

__device__ inline float4 with_row(Point p, int row) {
  return make_float4(p.x, p.y, p.z, __int_as_float(row));
}
__device__ inline Point point_of(float4 v) { return {v.x, v.y, v.z}; }
__device__ inline int packed_row(float4 v) { return __float_as_int(v.w); }

}  // namespace farpoint::cuda::lazy
