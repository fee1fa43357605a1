// Autograd functions of interpolate and its two derivatives.
//
// Three products of the same three tensors, each linear in two of them, so that the gradient of one
// is the other two and every higher derivative follows. Each keeps an input only where the gradient
// of its partner needs it. The tangent follows from the product rule.

#include <torch/library.h>

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
  c10::SymInt columns;  // of the features
};

}  // namespace

// The node of a product, whose `Rule` is named as torch names its nodes.
template <class Rule>
struct ProductNode : torch::autograd::Function<Rule> {
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* ctx, const Tensor& /*first*/, const Tensor& /*second*/,
                        const Product& p) {
    ctx->save_for_backward({kept_for(p.second, p.first), p.idx, kept_for(p.first, p.second)});
    ctx->saved_data["m"] = p.columns;
    return p.out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &first = saved[0], &idx = saved[1], &second = saved[2];
    const auto m = ctx->saved_data["m"].toSymInt();
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[0] = Rule::first(grads[0], second, idx, m);
    if (ctx->needs_input_grad(1)) result[1] = Rule::second(grads[0], first, idx, m);
    return result;
  }
};

// Each rule gives the gradients of a product in its first and its second factor, in turn from the
// gradient of the result and the other factor; `m` is columns(), that of the features where needed.
struct InterpolateBackward : ProductNode<InterpolateBackward> {
  static c10::SymInt columns(const Tensor& features, const Tensor&) { return features.sym_size(2); }
  static Tensor first(const Tensor& grad, const Tensor& weight, const Tensor& idx, c10::SymInt m) {
    return call_weighted_scatter(grad, idx, weight, std::move(m));
  }
  static Tensor second(const Tensor& grad, const Tensor& features, const Tensor& idx, c10::SymInt) {
    return call_dot(grad, features, idx);
  }
};

struct InterpolateScatterBackward : ProductNode<InterpolateScatterBackward> {
  static c10::SymInt columns(const Tensor&, const Tensor&) { return 0; }
  static Tensor first(const Tensor& grad, const Tensor& weight, const Tensor& idx, c10::SymInt) {
    return call_interpolate(grad, idx, weight);
  }
  static Tensor second(const Tensor& grad, const Tensor& values, const Tensor& idx, c10::SymInt) {
    return call_dot(values, grad, idx);
  }
};

struct InterpolateDotBackward : ProductNode<InterpolateDotBackward> {
  static c10::SymInt columns(const Tensor&, const Tensor& features) { return features.sym_size(2); }
  static Tensor first(const Tensor& grad, const Tensor& features, const Tensor& idx, c10::SymInt) {
    return call_interpolate(features, idx, grad);
  }
  static Tensor second(const Tensor& grad, const Tensor& values, const Tensor& idx, c10::SymInt m) {
    return call_weighted_scatter(values, idx, grad, std::move(m));
  }
};

namespace {

// The product `multiply(first, second)`, its node and its tangent.
template <class Rule, class Multiply>
Tensor product(const Tensor& first, const Tensor& second, const Tensor& idx,
               const Multiply& multiply) {
  auto out = below_autograd([&] { return multiply(first, second); });
  if (compute_requires_grad(first, second)) {
    out = record<Rule>(primal(first), primal(second),
                       Product{first, second, idx, out, Rule::columns(first, second)});
  }
  set_product_tangent(out, first, second, multiply);
  return out;
}

Tensor interpolate(const Tensor& features, const Tensor& idx, const Tensor& weight) {
  return product<InterpolateBackward>(features, weight, idx, [&](const Tensor& f, const Tensor& w) {
    return call_interpolate(f, idx, w);
  });
}

Tensor interpolate_scatter(const Tensor& values, const Tensor& idx, const Tensor& weight,
                           c10::SymInt m) {
  return product<InterpolateScatterBackward>(
      values, weight, idx,
      [&](const Tensor& v, const Tensor& w) { return call_weighted_scatter(v, idx, w, m); });
}

Tensor interpolate_dot(const Tensor& values, const Tensor& features, const Tensor& idx) {
  return product<InterpolateDotBackward>(
      values, features, idx, [&](const Tensor& v, const Tensor& f) { return call_dot(v, f, idx); });
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
