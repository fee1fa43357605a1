// Gather of channel-first rows on a CUDA device, without torch, and what all moves of rows share.
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

}  // namespace farpoint::cuda
#pragma GCC visibility pop
