// Gather and scatter-add over rows too long for shared memory, on a CUDA device, without torch. The
// side that is read or written at random is channel-last: (batch, points, vector_pitch(channels)).
#pragma once

#include "cuda/gather/gather.h"

#pragma GCC visibility push(default)
namespace farpoint::cuda {

// Channels of a point, so that four stand at an aligned address.
inline int64_t vector_pitch(int64_t channels) { return (channels + 3) / 4 * 4; }

// Whether a gather moves less this way, with a turn of the features: their rows do not fit into
// shared memory and are read often.
bool gather_wants_vectors(const GatherShape& shape, int element_bytes, int device);

// out[b, c, j] = features[b, idx[b, j], c], bit for bit, or with weights the sum over the corners
// of j, in their order. `shape.samples` counts corners.
int gather_vectors(const void* features, const void* idx, Weights weights, void* out,
                   const GatherShape& shape, RowTypes types, void* stream);
// sums[b, idx[b, j], c] += values[b, c, j], in no fixed order.
int scatter_vectors(const void* values, const void* idx, Weights weights, void* sums,
                    const GatherShape& shape, RowTypes types, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
