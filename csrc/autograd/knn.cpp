// Autograd function of knn.
//
// The squared distance of a query q to a neighbor p moves both: d|q - p|^2 = 2 (q - p) (dq - dp).
//
// Only the inputs and the indices are kept. The backward is made of differentiable ops, so every
// higher derivative follows. Distances that are not finite move nothing: their difference would
// turn the gradient of every point that shares a sum with them into NaN. Neither do the places that
// a cloud of fewer than k points leaves, in which the nearest row stands again.

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>

#include "autograd/transforms.h"

namespace farpoint {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Tensors = std::tuple<at::Tensor, at::Tensor>;
using KnnOp = Tensors(const at::Tensor&, const at::Tensor&, c10::SymInt, const OptionalTensor&);

// Places (B, 1, M, K) that hold a neighbor, not the nearest row again: rows are distinct otherwise.
at::Tensor places_in_use(const at::Tensor& idx) {
  const auto nearest = idx.slice(/*dim=*/2, /*start=*/0, /*end=*/1);
  const auto others = idx.slice(/*dim=*/2, /*start=*/1).ne(nearest);
  return at::cat({at::ones_like(nearest, nearest.options().dtype(at::kBool)), others}, 2)
      .unsqueeze(1);
}

// q - p (B, 3, M, K), zero where it is not finite or where the place is not in use; in the type
// that distances have.
at::Tensor differences(const at::Tensor& xyz, const at::Tensor& queries, const at::Tensor& idx,
                       at::ScalarType type, bool some_unused) {
  const auto points = xyz.to(type).transpose(1, 2);
  const auto from = queries.to(type).transpose(1, 2).unsqueeze(3);
  const auto difference = from.sub(call_group(points, idx));
  auto counts = difference.isfinite().all(1, /*keepdim=*/true);
  if (some_unused) counts = counts.logical_and(places_in_use(idx));
  return at::where(counts, difference, at::zeros({}, difference.options()));
}

struct Search {
  at::Tensor xyz, queries, squared, idx;
  bool some_unused;
};

}  // namespace

struct KnnBackward : torch::autograd::Function<KnnBackward> {
  static constexpr bool is_traceable = true;

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& /*xyz*/,
                            const at::Tensor& /*queries*/, const Search& s) {
    ctx->save_for_backward({s.xyz, s.queries, s.idx});
    ctx->saved_data["some_unused"] = s.some_unused;
    return s.squared;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    variable_list result(3);
    const bool to_xyz = ctx->needs_input_grad(0), to_queries = ctx->needs_input_grad(1);
    if (!to_xyz && !to_queries) return result;
    const auto saved = ctx->get_saved_variables();
    const auto &xyz = saved[0], &queries = saved[1], &idx = saved[2];
    const auto difference = differences(xyz, queries, idx, grads[0].scalar_type(),
                                        ctx->saved_data["some_unused"].toBool());
    const auto pull = grads[0].unsqueeze(1).mul(difference).mul(2);
    if (to_xyz) {
      const auto columns = idx.sym_size(1) * idx.sym_size(2);
      const auto pushed =
          call_scatter(pull.reshape_symint({pull.sym_size(0), 3, columns}),
                       idx.reshape_symint({idx.sym_size(0), columns}), xyz.sym_size(1));
      result[0] = pushed.neg().transpose(1, 2).to(xyz.scalar_type());
    }
    if (to_queries) result[1] = pull.sum(3).transpose(1, 2).to(queries.scalar_type());
    return result;
  }
};

namespace {

at::Tensor tangent_or_zeros(const at::Tensor& tensor) {
  return isFwGradDefined(tensor) ? tangent(tensor) : at::zeros_like(tensor);
}

// 2 (q - p) (dq - dp), summed over the axes.
at::Tensor squared_tangent(const Search& s) {
  const auto type = s.squared.scalar_type();
  const auto difference = differences(primal(s.xyz), primal(s.queries), s.idx, type, s.some_unused);
  const auto moved = differences(tangent_or_zeros(s.xyz), tangent_or_zeros(s.queries), s.idx, type,
                                 /*some_unused=*/false);
  return difference.mul(moved).sum(1).mul(2);
}

// Whether a cloud may have fewer than k points; a symbolic size is not asked, which would put a
// guard on it into the graph.
bool may_lack_points(const at::Tensor& xyz, const c10::SymInt& k, const OptionalTensor& lengths) {
  const auto most = k.maybe_as_int(), points = xyz.sym_size(1).maybe_as_int();
  return lengths || !most || !points || *most > *points;
}

Tensors knn(const at::Tensor& xyz, const at::Tensor& queries, c10::SymInt k,
            const OptionalTensor& lengths) {
  static const auto op = op_handle<KnnOp>("farpoint::knn");
  auto [squared, idx] = below_autograd([&] { return op.call(xyz, queries, k, lengths); });
  const bool moves = isFwGradDefined(xyz) || isFwGradDefined(queries);
  if (!moves && !compute_requires_grad(xyz, queries)) return {squared, idx};
  const Search search = {xyz, queries, squared, idx, may_lack_points(xyz, k, lengths)};
  if (compute_requires_grad(xyz, queries)) {
    squared = record<KnnBackward>(primal(xyz), primal(queries), search);
  }
  if (moves) set_tangent(squared, squared_tangent(search));
  return {squared, idx};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) { m.impl("knn", knn); }

}  // namespace farpoint
