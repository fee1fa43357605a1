// Autograd functions of gather_points, scatter_points and group_points.
//
// Gather and scatter-add are each other's derivative, so each backward is one call of the other op
// and every higher derivative follows. A group is a gather of M * K columns, and so is its
// backward. Only the indices and a size are kept, never the features.

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "autograd/op_handle.h"

namespace farpoint {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor call_gather(const at::Tensor& features, const at::Tensor& idx) {
  static const auto op =
      op_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("farpoint::gather_points");
  return op.call(features, idx);
}

at::Tensor call_scatter(const at::Tensor& values, const at::Tensor& idx, c10::SymInt n) {
  static const auto op = op_handle<at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt)>(
      "farpoint::scatter_points");
  return op.call(values, idx, n);
}

at::Tensor call_group(const at::Tensor& features, const at::Tensor& idx) {
  static const auto op =
      op_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("farpoint::group_points");
  return op.call(features, idx);
}

struct GatherPoints : torch::autograd::Function<GatherPoints> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& features,
                            const at::Tensor& idx) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto out = call_gather(features, idx);
    ctx->save_for_backward({idx});
    ctx->saved_data["n"] = features.sym_size(2);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!ctx->needs_input_grad(0)) return {at::Tensor(), at::Tensor()};
    const auto idx = ctx->get_saved_variables()[0];
    return {call_scatter(grads[0], idx, ctx->saved_data["n"].toSymInt()), at::Tensor()};
  }
};

struct ScatterPoints : torch::autograd::Function<ScatterPoints> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& values, const at::Tensor& idx,
                            c10::SymInt n) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto out = call_scatter(values, idx, std::move(n));
    ctx->save_for_backward({idx});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!ctx->needs_input_grad(0)) return {at::Tensor(), at::Tensor(), at::Tensor()};
    const auto idx = ctx->get_saved_variables()[0];
    return {call_gather(grads[0], idx), at::Tensor(), at::Tensor()};
  }
};

struct GroupPoints : torch::autograd::Function<GroupPoints> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& features,
                            const at::Tensor& idx) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto out = call_group(features, idx);
    ctx->save_for_backward({idx});
    ctx->saved_data["n"] = features.sym_size(2);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!ctx->needs_input_grad(0)) return {at::Tensor(), at::Tensor()};
    const auto idx = ctx->get_saved_variables()[0];
    return {call_scatter(grads[0].flatten(2), idx.flatten(1), ctx->saved_data["n"].toSymInt()),
            at::Tensor()};
  }
};

at::Tensor gather_points(const at::Tensor& features, const at::Tensor& idx) {
  return GatherPoints::apply(features, idx);
}

at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, c10::SymInt n) {
  return ScatterPoints::apply(values, idx, std::move(n));
}

at::Tensor group_points(const at::Tensor& features, const at::Tensor& idx) {
  return GroupPoints::apply(features, idx);
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("gather_points", gather_points);
  m.impl("scatter_points", scatter_points);
  m.impl("group_points", group_points);
}

}  // namespace farpoint
