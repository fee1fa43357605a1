// Gather and scatter-add kernels over the last dimension of channel-first rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace farpoint::cpu {

// The shape of either call: row r of `channels` per cloud belongs to cloud r / channels, and each
// cloud has its own `samples` indices into `points` columns. The indices are in range.
struct GatherShape {
  int64_t channels;
  int64_t points;
  int64_t samples;
};

// out[r, j] = features[r, idx[r / channels, j]] for the rows [begin, end).
template <typename Value, typename Index>
void gather_rows(const Value* features, const Index* idx, Value* out, const GatherShape& shape,
                 int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const Value* row = features + r * shape.points;
    const Index* columns = idx + r / shape.channels * shape.samples;
    Value* target = out + r * shape.samples;
    for (int64_t j = 0; j < shape.samples; ++j) target[j] = row[columns[j]];
  }
}

// out[r, i] = the sum of values[r, j] over the j with idx[r / channels, j] = i, for the rows
// [begin, end), in the order of j: it does not depend on the number of threads. Two rows of a cloud
// go together: an index is read once for both, and while one addition waits for its sum the other
// goes on. They become zero here, just before, while they are in cache.
template <typename Value, typename Index>
void scatter_rows(const Value* values, const Index* idx, Value* out, const GatherShape& shape,
                  int64_t begin, int64_t end) {
  const int64_t points = shape.points, samples = shape.samples;
  for (int64_t r = begin; r < end;) {
    const int64_t cloud = r / shape.channels;
    const Value* row = values + r * samples;
    const Index* columns = idx + cloud * samples;
    Value* target = out + r * points;
    const bool two = r + 1 < end && r + 1 < (cloud + 1) * shape.channels;
    std::fill_n(target, two ? 2 * points : points, Value{0});
    if (two) {
      for (int64_t j = 0; j < samples; ++j) {
        const int64_t column = columns[j];
        target[column] += row[j];
        target[points + column] += row[samples + j];
      }
      r += 2;
    } else {
      for (int64_t j = 0; j < samples; ++j) target[columns[j]] += row[j];
      r += 1;
    }
  }
}

}  // namespace farpoint::cpu
