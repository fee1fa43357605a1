// The three products of values v, features f and weights w over channel-first rows (see
// library.cpp) on a CUDA device, without torch. All of one type, float32 or float64 (`wide_value`);
// indices int32 or int64 (`wide_index`).
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cuda {

struct InterpolateShape {
  int64_t batch;
  int64_t channels;
  int64_t points;   // columns of v, rows of w
  int64_t columns;  // of f
  int64_t corners;  // columns of w
};

struct InterpolateTypes {
  bool wide_value;
  bool wide_index;
};

// v[c, n] = sum over k of w[n, k] f[c, idx[n, k]].
int interpolate(const void* features, const void* idx, const void* weight, void* out,
                const InterpolateShape& shape, InterpolateTypes types, int device, void* stream);
// f[c, j] = sum over idx[n, k] = j of v[c, n] w[n, k], in no fixed order.
int interpolate_scatter(const void* values, const void* idx, const void* weight, void* out,
                        const InterpolateShape& shape, InterpolateTypes types, int device,
                        void* stream);
// w[n, k] = sum over c of v[c, n] f[c, idx[n, k]].
int interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                    const InterpolateShape& shape, InterpolateTypes types, int device,
                    void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
