// Autograd functions of interpolate and its two derivatives.
//
// Three products of the same three tensors, each linear in two of them, so that the gradient of one
// is the other two and every higher derivative follows. Each keeps an input only where the gradient
// of its partner needs it. The tangent follows from the product rule.

#include <torch/library.h>

#include "autograd/op_handle.h"
#include "autograd/transforms.h"

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

Tensor call_weighted_scatter(const Tensor& values, const Tensor& idx, const Tensor& weight,
                             c10::SymInt m) {
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

// The tangent of a product of `a` and `b`, linear in each.
template <class Product>
void set_product_tangent(const Tensor& out, const Tensor& a, const Tensor& b,
                         const Product& product) {
  const bool moves_a = isFwGradDefined(a), moves_b = isFwGradDefined(b);
  if (moves_a && moves_b) {
    set_tangent(out, product(tangent(a), primal(b)).add(product(primal(a), tangent(b))));
  } else if (moves_a) {
    set_tangent(out, product(tangent(a), b));
  } else if (moves_b) {
    set_tangent(out, product(a, tangent(b)));
  }
}

// The arguments as they came, tangents included, and the result. Backward keeps these: a node must
// know no tangents, but its saved tensors carry them into the gradient.
struct Product {
  Tensor first, second, idx, out;
};

struct Interpolate : torch::autograd::Function<Interpolate> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& /*features*/, const Tensor& /*weight*/,
                        const Product& p) {
    ctx->save_for_backward({kept_for(p.second, p.first), p.idx, kept_for(p.first, p.second)});
    ctx->saved_data["m"] = p.first.sym_size(2);
    return p.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &features = saved[0], &idx = saved[1], &weight = saved[2];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = call_weighted_scatter(grads[0], idx, weight, ctx->saved_data["m"].toSymInt());
    }
    if (ctx->needs_input_grad(1)) result[1] = call_dot(grads[0], features, idx);
    return result;
  }
};

struct InterpolateScatter : torch::autograd::Function<InterpolateScatter> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& /*values*/, const Tensor& /*weight*/,
                        const Product& p) {
    ctx->save_for_backward({kept_for(p.second, p.first), p.idx, kept_for(p.first, p.second)});
    return p.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &values = saved[0], &idx = saved[1], &weight = saved[2];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[0] = call_interpolate(grads[0], idx, weight);
    if (ctx->needs_input_grad(1)) result[1] = call_dot(values, grads[0], idx);
    return result;
  }
};

struct InterpolateDot : torch::autograd::Function<InterpolateDot> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& /*values*/, const Tensor& /*features*/,
                        const Product& p) {
    ctx->save_for_backward({kept_for(p.second, p.first), kept_for(p.first, p.second), p.idx});
    ctx->saved_data["m"] = p.second.sym_size(2);
    return p.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &values = saved[0], &features = saved[1], &idx = saved[2];
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[0] = call_interpolate(features, idx, grads[0]);
    if (ctx->needs_input_grad(1)) {
      result[1] = call_weighted_scatter(values, idx, grads[0], ctx->saved_data["m"].toSymInt());
    }
    return result;
  }
};

// The product `multiply(first, second)`, its node and its tangent.
template <class Function, class Multiply>
Tensor product(const Tensor& first, const Tensor& second, const Tensor& idx,
               const Multiply& multiply) {
  auto out = below_autograd([&] { return multiply(first, second); });
  if (compute_requires_grad(first, second)) {
    out = record<Function>(primal(first), primal(second), Product{first, second, idx, out});
  }
  set_product_tangent(out, first, second, multiply);
  return out;
}

Tensor interpolate(const Tensor& features, const Tensor& idx, const Tensor& weight) {
  return product<Interpolate>(features, weight, idx, [&](const Tensor& f, const Tensor& w) {
    return call_interpolate(f, idx, w);
  });
}

Tensor interpolate_scatter(const Tensor& values, const Tensor& idx, const Tensor& weight,
                           c10::SymInt m) {
  return product<InterpolateScatter>(values, weight, idx, [&](const Tensor& v, const Tensor& w) {
    return call_weighted_scatter(v, idx, w, m);
  });
}

Tensor interpolate_dot(const Tensor& values, const Tensor& features, const Tensor& idx) {
  return product<InterpolateDot>(
      values, features, idx, [&](const Tensor& v, const Tensor& f) { return call_dot(v, f, idx); });
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
