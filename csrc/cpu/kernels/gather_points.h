// Kernels over the last dimension of channel-first rows: gather, scatter-add, weighted
// interpolation and its two derivatives, with values v, features f and weights w (see library.cpp).
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

// Row r of `channels` per cloud belongs to cloud r / channels. Each cloud has `points` values a
// row, `columns` features a row, and for each point `corners` indices, in range, with their
// weights.
struct InterpolateShape {
  int64_t channels;
  int64_t points;
  int64_t columns;
  int64_t corners;
};

// v[r, n] = sum over k of w[n, k] f[r, idx[n, k]] for the rows [begin, end).
template <typename Value, typename Index>
void interpolate_rows(const Value* features, const Index* idx, const Value* weight, Value* out,
                      const InterpolateShape& shape, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = r / shape.channels * shape.points * shape.corners;
    const Value* row = features + r * shape.columns;
    for (int64_t n = 0, at = first; n < shape.points; ++n) {
      Value sum = 0;
      for (int64_t k = 0; k < shape.corners; ++k, ++at) sum += weight[at] * row[idx[at]];
      out[r * shape.points + n] = sum;
    }
  }
}

// f[r, idx[n, k]] += v[r, n] w[n, k] for the rows [begin, end), in the order of n and k: sums do
// not depend on the number of threads.
template <typename Value, typename Index>
void interpolate_scatter_rows(const Value* values, const Index* idx, const Value* weight,
                              Value* out, const InterpolateShape& shape, int64_t begin,
                              int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = r / shape.channels * shape.points * shape.corners;
    Value* row = out + r * shape.columns;
    for (int64_t n = 0, at = first; n < shape.points; ++n) {
      const Value value = values[r * shape.points + n];
      for (int64_t k = 0; k < shape.corners; ++k, ++at) row[idx[at]] += value * weight[at];
    }
  }
}

// w[n, k] = sum over c of v[c, n] f[c, idx[n, k]] for points [begin, end) of cloud b; `out` is
// zero.
template <typename Value, typename Index>
void interpolate_dot_points(const Value* values, const Value* features, const Index* idx,
                            Value* out, const InterpolateShape& shape, int64_t b, int64_t begin,
                            int64_t end) {
  const int64_t first = (b * shape.points + begin) * shape.corners;
  for (int64_t r = b * shape.channels; r < (b + 1) * shape.channels; ++r) {
    const Value* row = features + r * shape.columns;
    for (int64_t n = begin, at = first; n < end; ++n) {
      const Value value = values[r * shape.points + n];
      for (int64_t k = 0; k < shape.corners; ++k, ++at) out[at] += value * row[idx[at]];
    }
  }
}

}  // namespace farpoint::cpu
