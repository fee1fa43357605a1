// Autograd functions of gather_points, scatter_points and group_points.
//
// Gather and scatter-add are each other's derivative, so each backward is one call of the other op
// and every higher derivative follows. A group is a gather of M * K columns, and so is its
// backward. Only the indices and a size are kept, never the features. All three are linear, so the
// tangent of a result is the same op of the tangent.

#include <torch/library.h>

#include "autograd/transforms.h"

namespace farpoint {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor call_gather(const at::Tensor& features, const at::Tensor& idx) {
  static const auto op =
      op_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("farpoint::gather_points");
  return op.call(features, idx);
}

struct GatherPoints : torch::autograd::Function<GatherPoints> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& features, const at::Tensor& idx,
                            const Computed<at::Tensor>& computed) {
    ctx->save_for_backward({idx});
    ctx->saved_data["n"] = features.sym_size(2);
    return computed.outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(3);
    if (!ctx->needs_input_grad(0)) return result;
    const auto idx = ctx->get_saved_variables()[0];
    result[0] = call_scatter(grads[0], idx, ctx->saved_data["n"].toSymInt());
    return result;
  }
};

struct ScatterPoints : torch::autograd::Function<ScatterPoints> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& /*values*/,
                            const at::Tensor& idx, const Computed<at::Tensor>& computed) {
    ctx->save_for_backward({idx});
    return computed.outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(3);
    if (!ctx->needs_input_grad(0)) return result;
    result[0] = call_gather(grads[0], ctx->get_saved_variables()[0]);
    return result;
  }
};

struct GroupPoints : torch::autograd::Function<GroupPoints> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& features, const at::Tensor& idx,
                            const Computed<at::Tensor>& computed) {
    ctx->save_for_backward({idx});
    ctx->saved_data["n"] = features.sym_size(2);
    return computed.outputs;
  }

  // With reshape, since flatten has no rule for the batched gradients of torch.autograd.
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(3);
    if (!ctx->needs_input_grad(0)) return result;
    const auto idx = ctx->get_saved_variables()[0];
    const auto columns = idx.sym_size(1) * idx.sym_size(2);
    const auto values =
        grads[0].reshape_symint({grads[0].sym_size(0), grads[0].sym_size(1), columns});
    result[0] = call_scatter(values, idx.reshape_symint({idx.sym_size(0), columns}),
                             ctx->saved_data["n"].toSymInt());
    return result;
  }
};

at::Tensor gather_points(const at::Tensor& features, const at::Tensor& idx) {
  auto out = below_autograd([&] { return call_gather(features, idx); });
  if (compute_requires_grad(features)) {
    out = record<GatherPoints>(primal(features), idx, Computed<at::Tensor>{out});
  }
  if (isFwGradDefined(features)) set_tangent(out, call_gather(tangent(features), idx));
  return out;
}

at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, c10::SymInt n) {
  auto out = below_autograd([&] { return call_scatter(values, idx, n); });
  if (compute_requires_grad(values)) {
    out = record<ScatterPoints>(primal(values), idx, Computed<at::Tensor>{out});
  }
  if (isFwGradDefined(values)) set_tangent(out, call_scatter(tangent(values), idx, n));
  return out;
}

at::Tensor group_points(const at::Tensor& features, const at::Tensor& idx) {
  auto out = below_autograd([&] { return call_group(features, idx); });
  if (compute_requires_grad(features)) {
    out = record<GroupPoints>(primal(features), idx, Computed<at::Tensor>{out});
  }
  if (isFwGradDefined(features)) set_tangent(out, call_group(tangent(features), idx));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("gather_points", gather_points);
  m.impl("scatter_points", scatter_points);
  m.impl("group_points", group_points);
}

}  // namespace farpoint
