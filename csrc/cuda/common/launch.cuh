// Kernel launches through cudaLaunchKernelEx: shared memory, clusters, cooperative grids.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace farpoint::cuda {

struct LaunchShape {
  unsigned blocks;
  unsigned threads;
  size_t shared_bytes = 0;
  unsigned cluster = 0;      // blocks per thread-block cluster; 0: a launch without clusters
  bool cooperative = false;  // all blocks resident at once
};

template <typename... Parameters>
int allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  constexpr size_t kAlwaysAllowed = 48 * 1024;
  if (bytes <= kAlwaysAllowed) return cudaSuccess;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

inline cudaLaunchConfig_t launch_config(const LaunchShape& shape, cudaLaunchAttribute* attributes,
                                        void* stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  if (shape.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (shape.cluster > 0) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = shape.cluster;
    attributes[config.numAttrs].val.clusterDim.y = 1;
    attributes[config.numAttrs++].val.clusterDim.z = 1;
  }
  return config;
}

template <typename... Parameters, typename... Arguments>
int launch(void (*kernel)(Parameters...), const LaunchShape& shape, void* stream,
           Arguments... arguments) {
  if (const int code = allow_shared(kernel, shape.shared_bytes)) return code;
  cudaLaunchAttribute attributes[2];
  const cudaLaunchConfig_t config = launch_config(shape, attributes, stream);
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

inline int device_attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

}  // namespace farpoint::cuda
