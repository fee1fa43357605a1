// Autograd keys of ops without a gradient (ball_query, nearest_sample, count_points): nothing is
// recorded and nothing is kept.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <tuple>

#include "autograd/op_handle.h"

namespace farpoint {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Tensors = std::tuple<Tensor, Tensor>;

Tensors ball_query(const Tensor& xyz, const Tensor& centers, double radius, c10::SymInt k,
                   const OptionalTensor& lengths) {
  static const auto op =
      op_handle<Tensors(const Tensor&, const Tensor&, double, c10::SymInt, const OptionalTensor&)>(
          "farpoint::ball_query");
  at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(xyz, centers, radius, std::move(k), lengths);
}

Tensors nearest_sample(const Tensor& xyz, const Tensor& samples, const OptionalTensor& lengths,
                       const OptionalTensor& sample_lengths) {
  static const auto op = op_handle<Tensors(const Tensor&, const Tensor&, const OptionalTensor&,
                                           const OptionalTensor&)>("farpoint::nearest_sample");
  at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(xyz, samples, lengths, sample_lengths);
}

Tensor count_points(const Tensor& assignment, c10::SymInt m) {
  static const auto op = op_handle<Tensor(const Tensor&, c10::SymInt)>("farpoint::count_points");
  at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(assignment, std::move(m));
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("ball_query", ball_query);
  m.impl("nearest_sample", nearest_sample);
  m.impl("count_points", count_points);
}

}  // namespace farpoint
