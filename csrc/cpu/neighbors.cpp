// CPU implementation of knn, ball_query, nearest_sample and count_points: checks, threads over
// queries, registration.
#include "cpu/kernels/neighbors/neighbors.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "checks.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;
using Use = cpu::Neighbors::Use;

// Contiguous points (B, N, 3) and queries (B, M, 3) of one type, and how many of each count.
struct Search {
  at::Tensor points, queries;
  std::vector<int64_t> sizes, query_sizes;
};

Search search_of(const at::Tensor& points, const at::Tensor& queries, std::vector<int64_t> sizes,
                 std::vector<int64_t> query_sizes) {
  const auto type = distance_type(points, queries);
  return {widened(points, type), widened(queries, type), std::move(sizes), std::move(query_sizes)};
}

// Of `points` that `lengths` bounds and all queries.
Search search_of(const at::Tensor& points, const at::Tensor& queries,
                 const OptionalTensor& lengths) {
  const int64_t batch = points.size(0);
  return search_of(points, queries, sizes_of("lengths", lengths, batch, 1, points.size(1)),
                   std::vector<int64_t>(batch, queries.size(1)));
}

template <class Real>
using Cloud = std::conditional_t<std::is_same_v<Real, double>, cpu::WideCloud, cpu::Neighbors>;

template <class Real>
std::vector<std::unique_ptr<Cloud<Real>>> make_searchable(const Search& s, Use use) {
  const int64_t batch = s.points.size(0), n = s.points.size(1);
  const int threads = std::max<int>(1, at::get_num_threads() / std::max<int64_t>(1, batch));
  std::vector<std::unique_ptr<Cloud<Real>>> clouds(batch);
  at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const Real* xyz = s.points.const_data_ptr<Real>() + b * n * 3;
      clouds[b] = std::make_unique<Cloud<Real>>(xyz, s.sizes[b], s.queries.size(1), use, threads);
    }
  });
  return clouds;
}

// Calls search(cloud, queries, first, count) for the queries that count, in shares of one cloud for
// threads; `first` is the place of the first of them in the batch.
template <class Real, class Visit>
void each_share(const Search& s, Use use, const Visit& search) {
  constexpr int64_t kGrain = 64;  // that one thread should do before another is worth waking
  const int64_t m = s.queries.size(1);
  const auto clouds = make_searchable<Real>(s, use);
  const Real* queries = s.queries.const_data_ptr<Real>();
  at::parallel_for(0, s.queries.size(0) * m, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t last; begin < end; begin = last) {
      const int64_t b = begin / m;
      last = std::min(end, (b + 1) * m);
      const int64_t count = std::min(last, b * m + s.query_sizes[b]) - begin;
      if (count > 0) search(*clouds[b], queries + 3 * begin, begin, count);
    }
  });
}

Tensors knn(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
            const OptionalTensor& lengths) {
  check_knn(xyz, queries, k, lengths);
  const auto s = search_of(xyz, queries, lengths);
  auto idx = at::empty({xyz.size(0), queries.size(1), k}, xyz.options().dtype(at::kInt));
  auto squared = at::empty(idx.sizes(), s.points.options());
  auto* rows = idx.mutable_data_ptr<int32_t>();
  AT_DISPATCH_FLOATING_TYPES(s.points.scalar_type(), "knn", [&] {
    auto* distances = squared.mutable_data_ptr<scalar_t>();
    each_share<scalar_t>(s, Use::kNearest, [&](auto& cloud, auto* from, int64_t q, int64_t count) {
      cloud.nearest(from, count, k, rows + q * k, distances + q * k);
    });
  });
  return {squared, idx};
}

// The squared inner and outer radius of each of `batch` clouds, one pair after another.
template <class Real>
std::vector<Real> squared_shells(const OptionalTensor& shells, double min_radius, double radius,
                                 int64_t batch) {
  std::vector<Real> squared(2 * batch);
  const auto given = shells ? shells->contiguous() : at::Tensor();
  const Real* values = shells ? given.const_data_ptr<Real>() : nullptr;
  for (int64_t b = 0; b < batch; ++b) {
    if (values) check_shell(values[2 * b], values[2 * b + 1]);
    squared[2 * b] = squared_radius<Real>(values ? values[2 * b] : min_radius);
    squared[2 * b + 1] = squared_radius<Real>(values ? values[2 * b + 1] : radius);
  }
  return squared;
}

Tensors ball_query(const at::Tensor& xyz, const at::Tensor& centers, double radius, int64_t k,
                   const OptionalTensor& lengths, double min_radius, const OptionalTensor& shells) {
  check_ball_query(xyz, centers, radius, k, lengths, min_radius, shells);
  const auto s = search_of(xyz, centers, lengths);
  auto idx = at::empty({xyz.size(0), centers.size(1), k}, xyz.options().dtype(at::kInt));
  auto counts = at::empty({xyz.size(0), centers.size(1)}, idx.options());
  auto* rows = idx.mutable_data_ptr<int32_t>();
  auto* found = counts.mutable_data_ptr<int32_t>();
  AT_DISPATCH_FLOATING_TYPES(s.points.scalar_type(), "ball_query", [&] {
    const auto shell = squared_shells<scalar_t>(shells, min_radius, radius, xyz.size(0));
    each_share<scalar_t>(s, Use::kBalls, [&](auto& cloud, auto* from, int64_t q, int64_t count) {
      const auto* of_cloud = shell.data() + 2 * (q / centers.size(1));
      cloud.within(from, count, of_cloud[0], of_cloud[1], k, rows + q * k, found + q);
    });
  });
  return {idx, counts};
}

Tensors nearest_sample(const at::Tensor& xyz, const at::Tensor& samples,
                       const OptionalTensor& lengths, const OptionalTensor& sample_lengths) {
  check_nearest_sample(xyz, samples, lengths, sample_lengths);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t batch = xyz.size(0), n = xyz.size(1);
  const auto s =
      search_of(samples, xyz, sizes_of("sample_lengths", sample_lengths, batch, 0, samples.size(1)),
                sizes_of("lengths", lengths, batch, 0, n));
  auto assignment = at::full({batch, n}, -1, xyz.options().dtype(at::kInt));
  auto squared = at::full({batch, n}, kInfinity, s.points.options());
  auto* rows = assignment.mutable_data_ptr<int32_t>();
  AT_DISPATCH_FLOATING_TYPES(s.points.scalar_type(), "nearest_sample", [&] {
    auto* distances = squared.mutable_data_ptr<scalar_t>();
    each_share<scalar_t>(s, Use::kNearest, [&](auto& cloud, auto* from, int64_t q, int64_t count) {
      cloud.nearest(from, count, 1, rows + q, distances + q);
      for (int64_t i = q; i < q + count; ++i) {  // infinitely far from every sample: it has none
        if (distances[i] == kInfinity) rows[i] = -1;
      }
    });
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
  m.impl("knn", knn);
  m.impl("ball_query", ball_query);
  m.impl("nearest_sample", nearest_sample);
  m.impl("count_points", count_points);
}

}  // namespace farpoint
