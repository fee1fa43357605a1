// Typed dispatcher handles of the ops of this library, and the calls that several derivatives
// share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

namespace farpoint {

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

}  // namespace farpoint
