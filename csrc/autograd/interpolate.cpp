// Autograd functions of interpolate and its two derivatives.
//
// Three products of the same three tensors, each linear in two of them, so that the gradient of one
// is the other two and every higher derivative follows. Each keeps an input only where the gradient
// of its partner needs it.

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "autograd/op_handle.h"

namespace farpoint {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor call_interpolate(const Tensor& features, const Tensor& idx, const Tensor& weight) {
  static const auto op =
      op_handle<Tensor(const Tensor&, const Tensor&, const Tensor&)>("farpoint::interpolate");
  return op.call(features, idx, weight);
}

Tensor call_scatter(const Tensor& values, const Tensor& idx, const Tensor& weight, c10::SymInt m) {
  static const auto op =
      op_handle<Tensor(const Tensor&, const Tensor&, const Tensor&, c10::SymInt)>(
          "farpoint::interpolate_scatter");
  return op.call(values, idx, weight, std::move(m));
}

Tensor call_dot(const Tensor& values, const Tensor& features, const Tensor& idx) {
  static const auto op =
      op_handle<Tensor(const Tensor&, const Tensor&, const Tensor&)>("farpoint::interpolate_dot");
  return op.call(values, features, idx);
}

// `tensor` where the gradient of `partner` will need it.
Tensor kept_for(const Tensor& partner, const Tensor& tensor) {
  return partner.requires_grad() ? tensor : Tensor();
}

struct Interpolate : torch::autograd::Function<Interpolate> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& features, const Tensor& idx,
                        const Tensor& weight) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto out = call_interpolate(features, idx, weight);
    ctx->save_for_backward({kept_for(weight, features), idx, kept_for(features, weight)});
    ctx->saved_data["m"] = features.sym_size(2);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &features = saved[0], &idx = saved[1], &weight = saved[2];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = call_scatter(grads[0], idx, weight, ctx->saved_data["m"].toSymInt());
    }
    if (ctx->needs_input_grad(2)) result[2] = call_dot(grads[0], features, idx);
    return result;
  }
};

struct InterpolateScatter : torch::autograd::Function<InterpolateScatter> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& values, const Tensor& idx,
                        const Tensor& weight, c10::SymInt m) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto out = call_scatter(values, idx, weight, std::move(m));
    ctx->save_for_backward({kept_for(weight, values), idx, kept_for(values, weight)});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &values = saved[0], &idx = saved[1], &weight = saved[2];
    variable_list result(4);
    if (ctx->needs_input_grad(0)) result[0] = call_interpolate(grads[0], idx, weight);
    if (ctx->needs_input_grad(2)) result[2] = call_dot(values, grads[0], idx);
    return result;
  }
};

struct InterpolateDot : torch::autograd::Function<InterpolateDot> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& values, const Tensor& features,
                        const Tensor& idx) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto out = call_dot(values, features, idx);
    ctx->save_for_backward({kept_for(features, values), kept_for(values, features), idx});
    ctx->saved_data["m"] = features.sym_size(2);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &values = saved[0], &features = saved[1], &idx = saved[2];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[0] = call_interpolate(features, idx, grads[0]);
    if (ctx->needs_input_grad(1)) {
      result[1] = call_scatter(values, idx, grads[0], ctx->saved_data["m"].toSymInt());
    }
    return result;
  }
};

Tensor interpolate(const Tensor& features, const Tensor& idx, const Tensor& weight) {
  return Interpolate::apply(features, idx, weight);
}

Tensor interpolate_scatter(const Tensor& values, const Tensor& idx, const Tensor& weight,
                           c10::SymInt m) {
  return InterpolateScatter::apply(values, idx, weight, std::move(m));
}

Tensor interpolate_dot(const Tensor& values, const Tensor& features, const Tensor& idx) {
  return InterpolateDot::apply(values, features, idx);
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
