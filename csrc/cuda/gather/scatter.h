// Scatter-add of channel-first rows on a CUDA device, without torch:
// out[b, c, idx[b, j]] += values[b, c, j].
#pragma once

#include "cuda/gather/gather.h"

#pragma GCC visibility push(default)
namespace farpoint::cuda {

// kRows: rows of the output in shared memory. kVectors: sums in global memory, several channels at
// once (vectors.h). kInOrder: as kRows, in the order of the samples.
enum class ScatterMethod { kRows, kVectors, kInOrder };

// The faster of the first two for a shape, from host numbers alone.
ScatterMethod scatter_method(const GatherShape& shape, Weights weights, bool wide_value,
                             int device);
// Whether a method can take a shape.
bool scatter_fits(ScatterMethod method, const GatherShape& shape, Weights weights, bool wide_value,
                  int device);

// Both write every element of `out`; `shape.samples` counts corners. Sums in no fixed order:
int scatter_rows(const void* values, const void* idx, Weights weights, void* out,
                 const GatherShape& shape, RowTypes types, int device, void* stream);
// Sums in the order of the samples, the same bits as the CPU's:
int scatter_in_order(const void* values, const void* idx, Weights weights, void* out,
                     const GatherShape& shape, RowTypes types, int device, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
