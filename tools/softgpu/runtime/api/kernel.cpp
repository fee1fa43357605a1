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

cudaError_t find_usable(const void* host, Function*& function) {
  SOFTGPU_ENTER();
  function = find_function(host);
  return returned(usable(function));
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
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared, cudaStream_t stream) {
  return launch_host(function, {grid, block, arguments, shared, stream_of(stream), true});
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

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* host) {
  Function* function = nullptr;
  if (const cudaError_t error = find_usable(host, function)) return error;
  *out = {};
  out->maxThreadsPerBlock = 1024;
  out->numRegs = function->code ? function->code->registers : 32;
  out->ptxVersion = out->binaryVersion = profile().capability;
  out->maxDynamicSharedSizeBytes = function->dynamic_shared;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  Function* function = nullptr;
  if (const cudaError_t error = find_usable(host, function)) return error;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (static_cast<size_t>(value) > profile().shared_per_block)
    return returned(cudaErrorInvalidValue);
  function->dynamic_shared = std::max(value, 48 * 1024);
  return cudaSuccess;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  Function* function = nullptr;
  if (const cudaError_t error = find_usable(host, function)) return error;
  *blocks = blocks_per_processor(*function, static_cast<unsigned>(threads), shared);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host,
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, shared, 0);
}

}  // extern "C"
