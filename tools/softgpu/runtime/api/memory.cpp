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

cudaError_t cudaFreeHost(void* pointer) {
  SOFTGPU_ENTER();
  return returned(free_pinned(pointer));
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
  return returned(copy(to, from, bytes, kind, stream_of(stream)));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(fill(to, value, bytes, stream_of(stream)));
}

}  // extern "C"
