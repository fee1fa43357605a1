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

}  // namespace

// The node of an op, named as torch names its own. `derivative` takes the gradient of the result,
// the indices and the columns that a row of the input has.
template <class Op>
struct LinearNode : torch::autograd::Function<Op> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& idx,
                            const Computed<at::Tensor>& computed) {
    ctx->save_for_backward({idx});
    ctx->saved_data["n"] = input.sym_size(2);
    return computed.outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(3);
    if (!ctx->needs_input_grad(0)) return result;
    const auto idx = ctx->get_saved_variables()[0];
    result[0] = Op::derivative(grads[0], idx, ctx->saved_data["n"].toSymInt());
    return result;
  }
};

struct GatherPointsBackward : LinearNode<GatherPointsBackward> {
  static at::Tensor derivative(const at::Tensor& grad, const at::Tensor& idx, c10::SymInt n) {
    return call_scatter(grad, idx, std::move(n));
  }
};

struct GroupPointsBackward : LinearNode<GroupPointsBackward> {
  // With reshape, since flatten has no rule for the batched gradients of torch.autograd.
  static at::Tensor derivative(const at::Tensor& grad, const at::Tensor& idx, c10::SymInt n) {
    const auto columns = idx.sym_size(1) * idx.sym_size(2);
    return call_scatter(grad.reshape_symint({grad.sym_size(0), grad.sym_size(1), columns}),
                        idx.reshape_symint({idx.sym_size(0), columns}), std::move(n));
  }
};

struct ScatterPointsBackward : LinearNode<ScatterPointsBackward> {
  static at::Tensor derivative(const at::Tensor& grad, const at::Tensor& idx, c10::SymInt) {
    return call_gather(grad, idx);
  }
};

namespace {

// The result `apply(input)`, its node and its tangent.
template <class Node, class Apply>
at::Tensor linear(const at::Tensor& input, const at::Tensor& idx, const Apply& apply) {
  auto out = below_autograd([&] { return apply(input); });
  if (compute_requires_grad(input)) {
    out = record<Node>(primal(input), idx, Computed<at::Tensor>{out});
  }
  if (isFwGradDefined(input)) set_tangent(out, apply(tangent(input)));
  return out;
}

at::Tensor gather_points(const at::Tensor& features, const at::Tensor& idx) {
  return linear<GatherPointsBackward>(features, idx,
                                      [&](const at::Tensor& f) { return call_gather(f, idx); });
}

at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, c10::SymInt n) {
  return linear<ScatterPointsBackward>(
      values, idx, [&](const at::Tensor& v) { return call_scatter(v, idx, n); });
}

at::Tensor group_points(const at::Tensor& features, const at::Tensor& idx) {
  return linear<GroupPointsBackward>(features, idx,
                                     [&](const at::Tensor& f) { return call_group(f, idx); });
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("gather_points", gather_points);
  m.impl("scatter_points", scatter_points);
  m.impl("group_points", group_points);
}

}  // namespace farpoint
