// Two of the three products of values v, features f and weights w over channel-first rows (see
// library.cpp) on a CUDA device, without torch; the third is a scatter-add (gather/scatter.h).
#pragma once

#include "cuda/gather/gather.h"

#pragma GCC visibility push(default)
namespace farpoint::cuda {

struct InterpolateShape {
  int64_t batch;
  int64_t channels;
  int64_t points;   // columns of v, rows of w
  int64_t columns;  // of f
  int64_t corners;  // columns of w
};

// Whether rows of features fit into shared memory, for three corners; else gather_vectors weighs.
bool interpolate_fits(const InterpolateShape& shape, RowTypes types, int device);

// v[c, n] = sum over k of w[n, k] f[c, idx[n, k]].
int interpolate(const void* features, const void* idx, const void* weight, void* out,
                const InterpolateShape& shape, RowTypes types, int device, void* stream);
// w[n, k] = sum over c of v[c, n] f[c, idx[n, k]].
int interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                    const InterpolateShape& shape, RowTypes types, int device, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
