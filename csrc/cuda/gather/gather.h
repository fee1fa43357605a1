// Gather, scatter-add and interpolation of channel-first rows on a CUDA device, without torch.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cuda {

struct GatherShape {
  int64_t batch;
  int64_t channels;
  int64_t points;   // columns of a feature row
  int64_t samples;  // indices per cloud
};

// Values are float64 where wide_value, else float32; indices int64 where wide_index, else int32.
struct RowTypes {
  bool wide_value;
  bool wide_index;
};

// Of samples that are the corners of points: so many in turn share a value. Without weights each
// sample has a value of its own.
struct Weights {
  const void* at = nullptr;
  int64_t corners = 1;
};

// out[b, c, j] = features[b, c, idx[b, j]] for elements of 1, 2, 4 or 8 bytes.
int gather(const void* features, const void* idx, void* out, const GatherShape& shape,
           int element_bytes, bool wide_index, int device, void* stream);

// out[b, c, idx[b, j]] += values[b, c, j]. kRows: rows of the output in shared memory. kVectors:
// sums in global memory, several channels at once. kInOrder: as kRows, in the order of the samples.
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

// For rows too long for shared memory: the side that is read or written at random is channel-last,
// (batch, points, vector_pitch(channels)), so that four channels are at an aligned address.
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

// Two of the three products of values v, features f and weights w (see library.cpp); the third is a
// scatter-add.
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
