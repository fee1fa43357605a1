// Gather and scatter-add kernels over the last dimension of channel-first rows.
#pragma once

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

// out[r, idx[r / channels, j]] += values[r, j] for the rows [begin, end), in the order of j: the
// sum of a repeated index does not depend on the number of threads.
template <typename Value, typename Index>
void scatter_rows(const Value* values, const Index* idx, Value* out, const GatherShape& shape,
                  int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const Value* row = values + r * shape.samples;
    const Index* columns = idx + r / shape.channels * shape.samples;
    Value* target = out + r * shape.points;
    for (int64_t j = 0; j < shape.samples; ++j) target[columns[j]] += row[j];
  }
}

}  // namespace farpoint::cpu
