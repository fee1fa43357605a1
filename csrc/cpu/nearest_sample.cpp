// CPU implementation of nearest_sample and count_points.
#include <ATen/Dispatch.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "checks_neighbors.h"
#include "cpu/per_cloud.h"
#include "cpu/search.h"

namespace farpoint {
namespace {

// A point infinitely far from every sample has none.
void forget_infinite(int32_t* rows, const float* squared, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (squared[i] == std::numeric_limits<float>::infinity()) rows[i] = -1;
  }
}

std::tuple<at::Tensor, at::Tensor> nearest_sample(const at::Tensor& xyz, const at::Tensor& samples,
                                                  const std::optional<at::Tensor>& lengths,
                                                  const std::optional<at::Tensor>& sample_lengths) {
  check_nearest_sample(xyz, samples, lengths, sample_lengths);
  const int64_t batch = xyz.size(0), n = xyz.size(1), m = samples.size(1);
  const auto sizes = sizes_of("lengths", lengths, batch, 0, n);
  const auto sample_sizes = sizes_of("sample_lengths", sample_lengths, batch, 0, m);
  const auto points = xyz.to(at::kFloat).contiguous(), to = samples.to(at::kFloat).contiguous();
  auto assignment = at::full({batch, n}, -1, xyz.options().dtype(at::kInt));
  auto squared = at::full({batch, n}, std::numeric_limits<double>::infinity(), points.options());

  const auto clouds = make_searchable(to.const_data_ptr<float>(), m, sample_sizes, n,
                                      cpu::Neighbors::Use::kNearest);
  const auto* point = points.const_data_ptr<float>();
  auto* rows = assignment.mutable_data_ptr<int32_t>();
  auto* distances = squared.mutable_data_ptr<float>();
  for_each_share(batch, n, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t first = b * n + begin, count = std::min(end, sizes[b]) - begin;
    if (count <= 0) return;
    clouds[b]->nearest(point + 3 * first, count, 1, rows + first, distances + first);
    forget_infinite(rows + first, distances + first, count);
  });
  return {assignment, squared};
}

template <typename Index>
void count_row(const Index* assignment, int64_t n, int64_t m, int64_t cloud, int32_t* counts) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t sample = assignment[i];
    TORCH_CHECK_INDEX(sample >= -1 && sample < m, "assignment: expected -1 <= sample < ", m,
                      ", got ", sample, " at (", cloud, ", ", i, ")");
    if (sample >= 0) ++counts[sample];
  }
}

at::Tensor count_points(const at::Tensor& assignment, int64_t m) {
  check_count_points(assignment, m);
  const int64_t batch = assignment.size(0), n = assignment.size(1);
  const auto rows = assignment.contiguous();
  auto counts = at::zeros({batch, m}, assignment.options().dtype(at::kInt));
  auto* to = counts.mutable_data_ptr<int32_t>();
  AT_DISPATCH_INDEX_TYPES(rows.scalar_type(), "count_points", [&] {
    const auto* from = rows.const_data_ptr<index_t>();
    at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) count_row(from + b * n, n, m, b, to + b * m);
    });
  });
  return counts;
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) {
  m.impl("nearest_sample", nearest_sample);
  m.impl("count_points", count_points);
}

}  // namespace farpoint
