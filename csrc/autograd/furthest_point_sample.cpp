// Autograd functions of the furthest_point_sample ops. Indices, and the distances that chose them,
// carry no gradient: sampling is a stop-gradient.

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <tuple>

#include "autograd/op_handle.h"

namespace farpoint {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Tensors = std::tuple<at::Tensor, at::Tensor>;
using Sample = Tensors(const at::Tensor&, c10::SymInt, const OptionalTensor&, const OptionalTensor&,
                       bool);
using SampleRagged = Tensors(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const OptionalTensor&, c10::SymInt, c10::SymInt, c10::SymInt, bool);

variable_list without_gradient(AutogradContext* ctx, const Tensors& outputs) {
  const auto& [indices, distances] = outputs;
  ctx->mark_non_differentiable({indices, distances});
  return {indices, distances};
}

// Never called: no output has a gradient. One undefined tensor for each argument.
variable_list no_gradients(size_t arguments) { return variable_list(arguments); }

Tensors sample_below(const at::Tensor& xyz, c10::SymInt m, const OptionalTensor& start,
                     const OptionalTensor& lengths, bool return_distances) {
  static const auto op = op_handle<Sample>("farpoint::furthest_point_sample");
  at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(xyz, m, start, lengths, return_distances);
}

Tensors sample_ragged_below(const at::Tensor& xyz, const at::Tensor& offsets,
                            const at::Tensor& sample_offsets, const OptionalTensor& start,
                            c10::SymInt total_samples, c10::SymInt max_points,
                            c10::SymInt max_samples, bool return_distances) {
  static const auto op = op_handle<SampleRagged>("farpoint::furthest_point_sample_ragged");
  at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(xyz, offsets, sample_offsets, start, total_samples, max_points, max_samples,
                 return_distances);
}

struct FurthestPointSample : torch::autograd::Function<FurthestPointSample> {
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, const at::Tensor& xyz, c10::SymInt m,
                               const OptionalTensor& start, const OptionalTensor& lengths,
                               bool return_distances) {
    return without_gradient(ctx, sample_below(xyz, m, start, lengths, return_distances));
  }

  static variable_list backward(AutogradContext*, const variable_list&) { return no_gradients(5); }
};

struct FurthestPointSampleRagged : torch::autograd::Function<FurthestPointSampleRagged> {
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, const at::Tensor& xyz,
                               const at::Tensor& offsets, const at::Tensor& sample_offsets,
                               const OptionalTensor& start, c10::SymInt total_samples,
                               c10::SymInt max_points, c10::SymInt max_samples,
                               bool return_distances) {
    return without_gradient(
        ctx, sample_ragged_below(xyz, offsets, sample_offsets, start, total_samples, max_points,
                                 max_samples, return_distances));
  }

  static variable_list backward(AutogradContext*, const variable_list&) { return no_gradients(8); }
};

// A graph node takes a microsecond to make, a thirtieth of a small sample: none is made where
// nothing asks for a gradient.
Tensors furthest_point_sample(const at::Tensor& xyz, c10::SymInt m, const OptionalTensor& start,
                              const OptionalTensor& lengths, bool return_distances) {
  if (!torch::autograd::compute_requires_grad(xyz)) {
    return sample_below(xyz, m, start, lengths, return_distances);
  }
  const auto out = FurthestPointSample::apply(xyz, m, start, lengths, return_distances);
  return {out[0], out[1]};
}

Tensors furthest_point_sample_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                                     const at::Tensor& sample_offsets, const OptionalTensor& start,
                                     c10::SymInt total_samples, c10::SymInt max_points,
                                     c10::SymInt max_samples, bool return_distances) {
  if (!torch::autograd::compute_requires_grad(xyz)) {
    return sample_ragged_below(xyz, offsets, sample_offsets, start, total_samples, max_points,
                               max_samples, return_distances);
  }
  const auto out =
      FurthestPointSampleRagged::apply(xyz, offsets, sample_offsets, start, total_samples,
                                       max_points, max_samples, return_distances);
  return {out[0], out[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("furthest_point_sample", furthest_point_sample);
  m.impl("furthest_point_sample_ragged", furthest_point_sample_ragged);
}

}  // namespace farpoint
