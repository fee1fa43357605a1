// Typed dispatcher handles of the ops of this library, for calls from below their autograd kernels.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace farpoint {

// The op named `farpoint::...` with the C++ signature of its schema (SymInt, not int64_t).
template <typename Signature>
c10::TypedOperatorHandle<Signature> op_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace farpoint
