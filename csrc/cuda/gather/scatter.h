// Scatter-add of channel-first rows on a CUDA device, without torch:
// out[b, c, idx[b, j]] += values[b, c, j] in float32, or in float64 when `wide_value`.
#pragma once

#include "cuda/gather/gather.h"

#pragma GCC visibility push(default)
namespace farpoint::cuda {

struct ScatterTypes {
  bool wide_value;
  bool wide_index;
};

// Samples as the corners of points: `corners` in turn share a value, and each adds its weight's
// part of it. Null: every sample has a value of its own.
struct Weights {
  const void* at = nullptr;
  int64_t corners = 1;
};

// kRows: rows of the output in shared memory. kVectors: reductions of four channels at once, into
// sums (batch, points, scatter_pitch(channels)). kAtomic: one reduction per value.
enum class ScatterMethod { kRows, kVectors, kAtomic };

// The method for a shape, from host numbers alone.
ScatterMethod scatter_method(const GatherShape& shape, bool wide_value, int device);
// Whether a method can take a shape.
bool scatter_fits(ScatterMethod method, const GatherShape& shape, bool wide_value, int device);

// Channels of a point of `sums`, so that four stand at an aligned address.
inline int64_t scatter_pitch(int64_t channels) { return (channels + 3) / 4 * 4; }

// Writes every element of `out`. The order of the sums is not fixed.
int scatter_rows(const void* values, const void* idx, void* out, const GatherShape& shape,
                 ScatterTypes types, int device, void* stream);
// Adds to `sums`, float32. The order of the sums is not fixed.
int scatter_vectors(const float* values, const void* idx, float* sums, const GatherShape& shape,
                    bool wide_index, void* stream);
// Adds to `out`. The order of the sums is not fixed.
int scatter_add(const void* values, const void* idx, void* out, const GatherShape& shape,
                ScatterTypes types, void* stream);

// Writes every element of `out`; sums have the order of the samples.
int scatter_in_order(const void* values, const void* idx, Weights weights, void* out,
                     const GatherShape& shape, ScatterTypes types, int device, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
