// Kernel launches through cudaLaunchKernelEx, with as much shared memory as they ask for. Arguments
// become the kernel's: a void* the pointer that it takes.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farpoint::cuda {

__host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct LaunchShape {
  int64_t blocks;
  unsigned threads;
  size_t shared_bytes = 0;
  bool at_once = false;  // all blocks hold a processor before any begins: they wait for each other
};

template <typename... Parameters>
int allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  constexpr size_t kAlwaysAllowed = 48 * 1024;
  if (bytes <= kAlwaysAllowed) return cudaSuccess;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

template <typename... Parameters, typename... Arguments>
int launch(void (*kernel)(Parameters...), const LaunchShape& shape, void* stream,
           Arguments... arguments) {
  if (const int code = allow_shared(kernel, shape.shared_bytes)) return code;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  config.attrs = &cooperative;
  config.numAttrs = shape.at_once ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// CUDA is asked once: a small launch looks at several.
inline int device_attribute(cudaDeviceAttr attribute, int device) {
  constexpr int kDevices = 64, kUnknown = -1;
  static std::atomic<int> known[kDevices][cudaDevAttrMax];
  static const bool cleared = [] {
    for (auto& of_device : known) {
      for (auto& value : of_device) value = kUnknown;
    }
    return true;
  }();
  const bool is_kept = cleared && device >= 0 && device < kDevices;
  int value = is_kept ? known[device][attribute].load() : kUnknown;
  if (value != kUnknown) return value;
  value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess && is_kept) {
    known[device][attribute] = value;
  }
  return value;
}

}  // namespace farpoint::cuda
