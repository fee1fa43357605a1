// Memory and copies: the runtime API's functions of these names.
#include <cstring>

#include "copy.h"
#include "memory.h"

using namespace softgpu;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  SOFTGPU_ENTER();
  return returned(allocate_device(pointer, bytes));
}

cudaError_t cudaFree(void* pointer) {
  SOFTGPU_ENTER();
  return returned(free_device(pointer));
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  SOFTGPU_ENTER();
  return returned(allocate_pinned(pointer, bytes));
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  SOFTGPU_ENTER();
  return returned(free_pinned(pointer));
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* unused, size_t* total) {
  SOFTGPU_ENTER();
  const Lock held(big);
  const Device& device = devices[current_device];
  *total = device.total;
  *unused = free_bytes(device);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  SOFTGPU_ENTER();
  const Lock held(big);
  *out = {};
  const Allocation* const found = find_allocation(reinterpret_cast<uintptr_t>(pointer));
  out->device = found ? found->device : -2;
  if (!found) return cudaSuccess;
  const bool on_device = found->kind == Kind::kDevice;
  out->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  out->devicePointer = const_cast<void*>(pointer);
  out->hostPointer = on_device ? nullptr : const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(copy(to, from, bytes, kind, stream_of(stream), false));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  SOFTGPU_ENTER();
  return returned(copy(to, from, bytes, kind, stream_of(nullptr), true));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(copy(to, from, bytes, cudaMemcpyDefault, stream_of(stream), false));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  SOFTGPU_ENTER();
  for (size_t row = 0; row < height; ++row) {
    char* const target = static_cast<char*>(to) + row * to_pitch;
    const char* const source = static_cast<const char*>(from) + row * from_pitch;
    const cudaError_t error = copy(target, source, width, kind, stream_of(stream), false);
    if (error) return returned(error);
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  SOFTGPU_ENTER();
  return returned(fill(to, value, bytes, stream_of(nullptr), true));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(fill(to, value, bytes, stream_of(stream), false));
}

}  // extern "C"
