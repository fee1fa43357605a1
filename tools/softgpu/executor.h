// What translated kernels need beside the executor's own headers: the runtime's memory.
#pragma once

#include "ptx/threads.h"
#include "softgpu.h"

int softgpu_run(const SoftgpuKernel* kernel, const unsigned grid[3], const unsigned block[3],
                size_t shared, int cooperative, const void* const* parameters, const char** why);

namespace ptx {

inline void* on_device(u64 address, size_t bytes, SoftgpuAccess access) {
  if (address % bytes != 0) model::fail("an address is not aligned");
  const char* why = "";
  void* const at = softgpu_address(address, bytes, access, &why);
  if (!at) model::fail(why);
  return at;
}

}  // namespace ptx
