// Autograd function of knn.
//
// The squared distance of a query q to a neighbor p moves both: d|q - p|^2 = 2 (q - p) (dq - dp).
//
// Only the inputs and the indices are kept. The backward is made of differentiable ops, so every
// higher derivative follows. Distances that are not finite move nothing: their difference would
// turn the gradient of every point that shares a sum with them into NaN.

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "autograd/op_handle.h"

namespace farpoint {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Tensors = std::tuple<at::Tensor, at::Tensor>;
using Search = Tensors(const at::Tensor&, const at::Tensor&, c10::SymInt, const OptionalTensor&);

at::Tensor call_group(const at::Tensor& features, const at::Tensor& idx) {
  static const auto op =
      op_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("farpoint::group_points");
  return op.call(features, idx);
}

at::Tensor call_scatter(const at::Tensor& values, const at::Tensor& idx, c10::SymInt n) {
  static const auto op = op_handle<at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt)>(
      "farpoint::scatter_points");
  return op.call(values, idx, std::move(n));
}

// q - p (B, 3, M, K), zero where it is not finite; in the type that distances have.
at::Tensor differences(const at::Tensor& xyz, const at::Tensor& queries, const at::Tensor& idx,
                       at::ScalarType type) {
  const auto points = xyz.to(type).transpose(1, 2);
  const auto from = queries.to(type).transpose(1, 2).unsqueeze(3);
  const auto difference = from.sub(call_group(points, idx));
  const auto finite = difference.isfinite().all(1, /*keepdim=*/true);
  return at::where(finite, difference, at::zeros({}, difference.options()));
}

struct Knn : torch::autograd::Function<Knn> {
  static constexpr bool is_traceable = true;

  static variable_list forward(AutogradContext* ctx, const at::Tensor& xyz,
                               const at::Tensor& queries, c10::SymInt k,
                               const OptionalTensor& lengths) {
    static const auto op = op_handle<Search>("farpoint::knn");
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [squared, idx] = op.call(xyz, queries, std::move(k), lengths);
    // Integers have no gradient as they are; marking them is what compiled autograd cannot take.
    ctx->save_for_backward({xyz, queries, idx});
    return {squared, idx};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(4);
    const bool to_xyz = ctx->needs_input_grad(0), to_queries = ctx->needs_input_grad(1);
    if (!to_xyz && !to_queries) return result;
    const auto saved = ctx->get_saved_variables();
    const auto &xyz = saved[0], &queries = saved[1], &idx = saved[2];
    const auto difference = differences(xyz, queries, idx, grads[0].scalar_type());
    const auto pull = grads[0].unsqueeze(1).mul(difference).mul(2);
    if (to_xyz) {
      const auto pushed = call_scatter(pull.flatten(2), idx.flatten(1), xyz.sym_size(1));
      result[0] = pushed.neg().transpose(1, 2).to(xyz.scalar_type());
    }
    if (to_queries) result[1] = pull.sum(3).transpose(1, 2).to(queries.scalar_type());
    return result;
  }
};

Tensors knn(const at::Tensor& xyz, const at::Tensor& queries, c10::SymInt k,
            const OptionalTensor& lengths) {
  const auto out = Knn::apply(xyz, queries, std::move(k), lengths);
  return {out[0], out[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) { m.impl("knn", knn); }

}  // namespace farpoint
