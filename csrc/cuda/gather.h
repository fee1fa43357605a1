// Gather and scatter-add of channel-first rows on a CUDA device, without torch.
#pragma once

#include <cstdint>

namespace farpoint::cuda {

struct GatherShape {
  int64_t batch;
  int64_t channels;
  int64_t points;   // columns of a feature row
  int64_t samples;  // indices per cloud
};

// out[b, c, j] = features[b, c, idx[b, j]] for elements of 1, 2, 4 or 8 bytes.
int gather(const void* features, const void* idx, void* out, const GatherShape& shape,
           int element_bytes, bool wide_index, int device, void* stream);

// out[b, c, idx[b, j]] += values[b, c, j] in float32, or in float64 when `wide_value`. The order of
// the sums is not fixed.
int scatter_add(const void* values, const void* idx, void* out, const GatherShape& shape,
                bool wide_value, bool wide_index, void* stream);

// The same in a fixed order: `order` (batch, samples) sorts each cloud's indices stably and
// `sorted` holds them in that order; elements that no index names keep their value.
int scatter_sorted(const void* values, const int64_t* order, const int64_t* sorted, void* out,
                   const GatherShape& shape, bool wide_value, void* stream);

}  // namespace farpoint::cuda
