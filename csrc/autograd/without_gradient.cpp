// Autograd keys of ops without a gradient: nothing is recorded, nothing is kept, and no result has
// a tangent.
//
// Sampling is among them. Which points are sampled is constant nearly everywhere, and the distances
// that chose them are a stop-gradient as they are.

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <tuple>

#include "autograd/op_handle.h"
#include "autograd/transforms.h"

namespace farpoint {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Tensors = std::tuple<Tensor, Tensor>;

Tensors furthest_point_sample(const Tensor& xyz, c10::SymInt m, const OptionalTensor& start,
                              const OptionalTensor& lengths, bool return_distances,
                              const OptionalTensor& radius) {
  static const auto op =
      op_handle<Tensors(const Tensor&, c10::SymInt, const OptionalTensor&, const OptionalTensor&,
                        bool, const OptionalTensor&)>("farpoint::furthest_point_sample");
  return below_autograd([&] { return op.call(xyz, m, start, lengths, return_distances, radius); });
}

Tensors furthest_point_sample_ragged(const Tensor& xyz, const Tensor& offsets,
                                     const Tensor& sample_offsets, const OptionalTensor& start,
                                     c10::SymInt total_samples, c10::SymInt max_points,
                                     c10::SymInt max_samples, bool return_distances,
                                     const OptionalTensor& radius) {
  static const auto op =
      op_handle<Tensors(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
                        c10::SymInt, c10::SymInt, c10::SymInt, bool, const OptionalTensor&)>(
          "farpoint::furthest_point_sample_ragged");
  return below_autograd([&] {
    return op.call(xyz, offsets, sample_offsets, start, total_samples, max_points, max_samples,
                   return_distances, radius);
  });
}

Tensors furthest_point_sample_with_distances(const Tensor& distances, c10::SymInt m,
                                             const OptionalTensor& start,
                                             const OptionalTensor& lengths, bool return_distances) {
  static const auto op =
      op_handle<Tensors(const Tensor&, c10::SymInt, const OptionalTensor&, const OptionalTensor&,
                        bool)>("farpoint::furthest_point_sample_with_distances");
  return below_autograd([&] { return op.call(distances, m, start, lengths, return_distances); });
}

Tensors ball_query(const Tensor& xyz, const Tensor& centers, double radius, c10::SymInt k,
                   const OptionalTensor& lengths, double min_radius) {
  static const auto op = op_handle<Tensors(const Tensor&, const Tensor&, double, c10::SymInt,
                                           const OptionalTensor&, double)>("farpoint::ball_query");
  return below_autograd([&] { return op.call(xyz, centers, radius, k, lengths, min_radius); });
}

Tensors nearest_sample(const Tensor& xyz, const Tensor& samples, const OptionalTensor& lengths,
                       const OptionalTensor& sample_lengths) {
  static const auto op = op_handle<Tensors(const Tensor&, const Tensor&, const OptionalTensor&,
                                           const OptionalTensor&)>("farpoint::nearest_sample");
  return below_autograd([&] { return op.call(xyz, samples, lengths, sample_lengths); });
}

Tensor count_points(const Tensor& assignment, c10::SymInt m) {
  static const auto op = op_handle<Tensor(const Tensor&, c10::SymInt)>("farpoint::count_points");
  return below_autograd([&] { return op.call(assignment, m); });
}

Tensors knn_ragged(const Tensor& xyz, const Tensor& queries, c10::SymInt k, const Tensor& offsets,
                   const Tensor& query_offsets) {
  static const auto op =
      op_handle<Tensors(const Tensor&, const Tensor&, c10::SymInt, const Tensor&, const Tensor&)>(
          "farpoint::knn_ragged");
  return below_autograd([&] { return op.call(xyz, queries, k, offsets, query_offsets); });
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("furthest_point_sample", furthest_point_sample);
  m.impl("furthest_point_sample_ragged", furthest_point_sample_ragged);
  m.impl("furthest_point_sample_with_distances", furthest_point_sample_with_distances);
  m.impl("ball_query", ball_query);
  m.impl("nearest_sample", nearest_sample);
  m.impl("count_points", count_points);
  m.impl("knn_ragged", knn_ragged);
}

}  // namespace farpoint
