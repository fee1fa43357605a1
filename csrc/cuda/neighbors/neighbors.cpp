// CUDA implementation of knn, ball_query, nearest_sample and count_points: checks, registration.
#include "cuda/neighbors/neighbors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "checks.h"
#include "cuda/common/torch_glue.h"

// Lengths live on the device and are not read here; a kernel meeting a bad one stops with a device
// assertion.
namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;

// Contiguous tensors of one type, and the batch that points into them.
cuda::SearchBatch search_batch(const at::Tensor& xyz, const at::Tensor& queries,
                               const at::Tensor& lengths) {
  return {xyz.const_data_ptr(), queries.const_data_ptr(),      pointer_or_null(lengths),
          xyz.size(0),          static_cast<int>(xyz.size(1)), static_cast<int>(queries.size(1))};
}

// Memory for an index of the batch's float32 clouds where that pays, else nothing. It may go as
// soon as the search is queued: what takes it next comes later on the stream.
at::Tensor with_index(cuda::SearchBatch& batch, cuda::Search search, const at::Tensor& points) {
  const int device = points.device().index();
  if (!cuda::wants_index(batch, search, device)) return {};
  const auto memory = scratch_on(points, cuda::index_bytes(batch, device));
  batch.index = memory.mutable_data_ptr();
  return memory;
}

Tensors knn(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
            const OptionalTensor& lengths) {
  check_knn(xyz, queries, k, lengths);
  const c10::DeviceGuard guard(xyz.device());
  const auto type = distance_type(xyz, queries);
  const auto points = widened(xyz, type), from = widened(queries, type);
  const auto sizes = int64_or_none(lengths);
  auto idx = at::empty({xyz.size(0), queries.size(1), k}, xyz.options().dtype(at::kInt));
  auto squared = at::empty(idx.sizes(), points.options());
  auto batch = search_batch(points, from, sizes);
  const bool wide = type == at::kDouble;
  const auto index = wide ? at::Tensor() : with_index(batch, cuda::Search::kKnn, points);
  check_cuda("knn", cuda::knn(batch, static_cast<int>(k), idx.mutable_data_ptr<int32_t>(),
                              squared.mutable_data_ptr(), wide, xyz.device().index(),
                              current_stream(xyz.device())));
  return {squared, idx};
}

template <class Real>
cuda::Shell<Real> shell_of(double min_radius, double radius, const at::Tensor& shells) {
  return {squared_radius<Real>(min_radius), squared_radius<Real>(radius),
          shells.defined() ? shells.const_data_ptr<Real>() : nullptr};
}

Tensors ball_query(const at::Tensor& xyz, const at::Tensor& centers, double radius, int64_t k,
                   const OptionalTensor& lengths, double min_radius, const OptionalTensor& shells) {
  check_ball_query(xyz, centers, radius, k, lengths, min_radius, shells);
  const c10::DeviceGuard guard(xyz.device());
  const auto type = distance_type(xyz, centers);
  const bool wide = type == at::kDouble;
  const auto points = widened(xyz, type), from = widened(centers, type);
  const auto each = shells ? shells->contiguous() : at::Tensor();
  const auto sizes = int64_or_none(lengths);
  auto idx = at::empty({xyz.size(0), centers.size(1), k}, xyz.options().dtype(at::kInt));
  auto counts = at::empty({xyz.size(0), centers.size(1)}, idx.options());
  auto batch = search_batch(points, from, sizes);
  const auto index = wide ? at::Tensor() : with_index(batch, cuda::Search::kBall, points);
  auto* const rows = idx.mutable_data_ptr<int32_t>();
  auto* const found = counts.mutable_data_ptr<int32_t>();
  void* const stream = current_stream(xyz.device());
  const int most = static_cast<int>(k);
  check_cuda("ball_query",
             wide ? cuda::ball_query_wide(batch, shell_of<double>(min_radius, radius, each), most,
                                          rows, found, stream)
                  : cuda::ball_query(batch, shell_of<float>(min_radius, radius, each), most, rows,
                                     found, xyz.device().index(), stream));
  return {idx, counts};
}

Tensors nearest_sample(const at::Tensor& xyz, const at::Tensor& samples,
                       const OptionalTensor& lengths, const OptionalTensor& sample_lengths) {
  check_nearest_sample(xyz, samples, lengths, sample_lengths);
  const c10::DeviceGuard guard(xyz.device());
  const auto type = distance_type(xyz, samples);
  const bool wide = type == at::kDouble;
  const auto points = widened(xyz, type), to = widened(samples, type);
  const auto sizes = int64_or_none(lengths), sample_sizes = int64_or_none(sample_lengths);
  auto assignment = at::empty({xyz.size(0), xyz.size(1)}, xyz.options().dtype(at::kInt));
  auto squared = at::empty(assignment.sizes(), points.options());
  auto batch = search_batch(to, points, sample_sizes);
  const auto index = wide ? at::Tensor() : with_index(batch, cuda::Search::kNearest, to);
  auto* const rows = assignment.mutable_data_ptr<int32_t>();
  void* const stream = current_stream(xyz.device());
  check_cuda("nearest_sample",
             wide ? cuda::nearest_wide(batch, pointer_or_null(sizes), rows,
                                       squared.mutable_data_ptr<double>(), stream)
                  : cuda::nearest(batch, pointer_or_null(sizes), rows,
                                  squared.mutable_data_ptr<float>(), xyz.device().index(), stream));
  return {assignment, squared};
}

at::Tensor count_points(const at::Tensor& assignment, int64_t m) {
  check_count_points(assignment, m);
  const c10::DeviceGuard guard(assignment.device());
  const auto rows = assignment.contiguous();
  auto counts = at::zeros({assignment.size(0), m}, assignment.options().dtype(at::kInt));
  check_cuda("count_points", cuda::count(rows.const_data_ptr(), rows.scalar_type() == at::kLong,
                                         counts.mutable_data_ptr<int32_t>(), rows.size(0),
                                         rows.size(1), m, current_stream(rows.device())));
  return counts;
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("knn", knn);
  m.impl("ball_query", ball_query);
  m.impl("nearest_sample", nearest_sample);
  m.impl("count_points", count_points);
}

}  // namespace farpoint
