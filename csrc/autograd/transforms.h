// Autograd kernels in the way of torch's own ops: compute below autograd, then record a node, then
// set a tangent. Reverse mode, forward mode and every level of torch.func pass the same kernel,
// each with the tensors of its level. Derivatives call the ops of this library by typed handles.
#pragma once

#include <ATen/FuncTorchTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

namespace farpoint {

using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;

// The op named `farpoint::...` with the C++ signature of its schema (SymInt, not int64_t).
template <typename Signature>
c10::TypedOperatorHandle<Signature> op_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

inline at::Tensor call_scatter(const at::Tensor& values, const at::Tensor& idx, c10::SymInt n) {
  static const auto op = op_handle<at::Tensor(const at::Tensor&, const at::Tensor&, c10::SymInt)>(
      "farpoint::scatter_points");
  return op.call(values, idx, std::move(n));
}

inline at::Tensor call_group(const at::Tensor& features, const at::Tensor& idx) {
  static const auto op =
      op_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("farpoint::group_points");
  return op.call(features, idx);
}

// Results that an autograd function records; no argument of its own to autograd.
template <class Outputs>
struct Computed {
  Outputs outputs;
};

// Calls an op of ours from its own autograd kernel: the keys that this kernel serves are skipped.
template <class Call>
auto below_autograd(const Call& call) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return call();
}

// Out of sight of Function::apply: that transforms of torch.func are active.
class WithoutTransforms {
 public:
  WithoutTransforms() : hidden_(std::move(at::functorch::functorchTLSAccessor())) {}
  ~WithoutTransforms() { at::functorch::functorchTLSAccessor() = std::move(hidden_); }
  WithoutTransforms(const WithoutTransforms&) = delete;
  WithoutTransforms& operator=(const WithoutTransforms&) = delete;

 private:
  std::unique_ptr<at::functorch::FuncTorchTLSBase> hidden_;
};

// Function::apply, also under a transform of torch.func. torch refuses C++ functions there, since a
// forward runs with gradients off, which would cut the levels below. A forward here runs no op: it
// records what was computed before, and so does the rest of apply.
template <class Function, class... Arguments>
auto record(Arguments&&... arguments) {
  const WithoutTransforms hidden;
  return Function::apply(std::forward<Arguments>(arguments)...);
}

// The tensor without its tangent, in the same graph; C++ functions take no tangents.
inline at::Tensor primal(const at::Tensor& tensor) {
  return isFwGradDefined(tensor) ? tensor._fw_primal(/*level=*/0) : tensor;
}

inline at::Tensor tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0); }

inline void set_tangent(const at::Tensor& output, const at::Tensor& tangent) {
  output._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
}

}  // namespace farpoint
