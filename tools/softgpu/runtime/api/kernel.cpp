// Launches, attributes and occupancy of kernels: the runtime API's functions of these names.
#include <algorithm>

#include "kernel.h"

using namespace softgpu;

namespace {

cudaError_t launch_host(const void* host, const Launch& what) {
  SOFTGPU_ENTER();
  Function* const function = find_function(host);
  return returned(function ? launch(*function, what) : cudaErrorInvalidDeviceFunction);
}

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return launch_host(function, {grid, block, arguments, shared, stream_of(stream), false});
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  bool at_once = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) {
      at_once = attribute.val.cooperative != 0;
    } else if (attribute.id != cudaLaunchAttributeIgnore) {
      const std::string name = "launch attribute " + std::to_string(attribute.id);
      found("unsupported", name, name);
      return returned(cudaErrorNotSupported);
    }
  }
  const size_t shared = config->dynamicSmemBytes;
  Stream* const stream = stream_of(config->stream);
  return launch_host(function,
                     {config->gridDim, config->blockDim, arguments, shared, stream, at_once});
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  SOFTGPU_ENTER();
  Function* const function = find_function(host);
  if (const cudaError_t error = usable(function)) return returned(error);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (static_cast<size_t>(value) > profile().shared_per_block)
    return returned(cudaErrorInvalidValue);
  function->dynamic_shared = std::max(value, 48 * 1024);
  return cudaSuccess;
}

}  // extern "C"
