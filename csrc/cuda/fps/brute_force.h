// Brute-force farthest point sampling on a CUDA device, without torch: any number of dimensions,
// float32 or float64, or a matrix of distances.
#pragma once

#include "cuda/fps/fps.h"

#pragma GCC visibility push(default)
namespace farpoint::cuda {

constexpr int kMostDims = 64;

struct BruteFpsBatch {
  FpsBatch layout;     // without xyz and distances
  const void* values;  // coordinate d of row r at d * rows + r; or (clouds, max_points, max_points)
  void* distances;     // null: not wanted
  int dims;
  bool matrix;  // values are distances from the sample, a row of the matrix, to each point
  bool wide;    // values and distances are float64, else float32
};

// `nearest` has room for a value of each row. Queues a kernel on `stream`.
int fps_brute_force(const BruteFpsBatch& batch, void* nearest, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
