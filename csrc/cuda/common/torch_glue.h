// Streams, error checks and scratch tensors for the torch bindings of CUDA ops. Includes no CUDA
// header, so that torch's CPU build compiles it too.
#pragma once

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "cuda/common/error.h"

namespace farpoint {

// The current stream of the device, as the cudaStream_t that the kernels take.
inline void* current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

inline void check_cuda(const char* op, int code) {
  TORCH_CHECK(code == 0, op, ": ", cuda::take_error(code), " (CUDA error ", code, ")");
}

// Memory of torch's caching allocator, so that a stream capture and the trimming policy see it.
inline at::Tensor scratch_on(const at::Tensor& like, size_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)}, like.options().dtype(at::kByte));
}

inline const int64_t* pointer_or_null(const at::Tensor& values) {
  return values.defined() ? values.const_data_ptr<int64_t>() : nullptr;
}

}  // namespace farpoint
