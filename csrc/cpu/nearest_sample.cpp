// CPU implementation of nearest_sample and count_points.
#include <ATen/Dispatch.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "checks_neighbors.h"
#include "cpu/search.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

// A point infinitely far from every sample has none.
void forget_infinite(int32_t* rows, const float* squared, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (squared[i] == std::numeric_limits<float>::infinity()) rows[i] = -1;
  }
}

using Tensors = std::tuple<at::Tensor, at::Tensor>;

// Contiguous points (B, N, 3) and samples (B, M, 3) of one type, and how many of each count.
struct Assignment {
  at::Tensor points, samples;
  std::vector<int64_t> sizes, sample_sizes;
};

// Calls search(cloud, first row of the batch, rows) for the rows that are no padding.
template <class Search>
void for_each_row(const Assignment& given, const Search& search) {
  const int64_t n = given.points.size(1);
  for_each_share(given.points.size(0), n, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t count = std::min(end, given.sizes[b]) - begin;
    if (count > 0) search(b, b * n + begin, count);
  });
}

void assign_narrow(const Assignment& given, int32_t* rows, float* squared) {
  const auto clouds =
      make_searchable(given.samples.const_data_ptr<float>(), given.samples.size(1),
                      given.sample_sizes, given.points.size(1), cpu::Neighbors::Use::kNearest);
  const auto* point = given.points.const_data_ptr<float>();
  for_each_row(given, [&](int64_t b, int64_t first, int64_t count) {
    clouds[b]->nearest(point + 3 * first, count, 1, rows + first, squared + first);
    forget_infinite(rows + first, squared + first, count);
  });
}

void assign_wide(const Assignment& given, int32_t* rows, double* squared) {
  const auto clouds = make_searchable(given.samples.const_data_ptr<double>(), given.samples.size(1),
                                      given.sample_sizes);
  const auto* point = given.points.const_data_ptr<double>();
  for_each_row(given, [&](int64_t b, int64_t first, int64_t count) {
    clouds[b].nearest(point + 3 * first, count, rows + first, squared + first);
  });
}

Tensors nearest_sample(const at::Tensor& xyz, const at::Tensor& samples,
                       const std::optional<at::Tensor>& lengths,
                       const std::optional<at::Tensor>& sample_lengths) {
  check_nearest_sample(xyz, samples, lengths, sample_lengths);
  const int64_t batch = xyz.size(0), n = xyz.size(1);
  const auto type = distance_type(xyz);
  const Assignment given = {xyz.to(type).contiguous(), samples.to(type).contiguous(),
                            sizes_of("lengths", lengths, batch, 0, n),
                            sizes_of("sample_lengths", sample_lengths, batch, 0, samples.size(1))};
  auto assignment = at::full({batch, n}, -1, xyz.options().dtype(at::kInt));
  auto squared =
      at::full({batch, n}, std::numeric_limits<double>::infinity(), given.points.options());
  auto* rows = assignment.mutable_data_ptr<int32_t>();
  if (type == at::kDouble) {
    assign_wide(given, rows, squared.mutable_data_ptr<double>());
  } else {
    assign_narrow(given, rows, squared.mutable_data_ptr<float>());
  }
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
