// Devices of the software CUDA runtime: the properties of an H100 and a T4.
#pragma once

#include <cuda_runtime_api.h>
#undef cudaGetDeviceProperties

#include <atomic>
#include <vector>

#include "base.h"

namespace softgpu {

struct Profile {
  const char* name;
  int capability;  // 90 is 9.0
  int processors;
  size_t shared_per_block;  // with cudaFuncAttributeMaxDynamicSharedMemorySize
  size_t shared_per_processor;
  int threads_per_processor;
  int blocks_per_processor;
  size_t l2_bytes;
  size_t mebibytes;
};

struct Stream;
struct Device {
  int index;
  size_t total;
  size_t used;
  Stream* legacy = nullptr;
  std::vector<Stream*> streams;
};

extern std::vector<Device>& devices;
// Without SOFTGPU_TAKEN_MB, the memory of other processes.
size_t free_bytes(const Device& device);
extern thread_local int current_device;
const Profile& profile();

// The error that every later call returns: a device does not recover from a failed kernel.
extern std::atomic<int> sticky;
void lose_device(int code, const std::string& why);

// Starts the runtime once; what a call has to return: no device, a forked child, or the
// sticky error.
cudaError_t enter();
// Keeps an error for cudaGetLastError.
cudaError_t returned(cudaError_t error);

size_t rounded(size_t size, size_t to);

}  // namespace softgpu

#define SOFTGPU_ENTER()                                             \
  do {                                                              \
    if (const cudaError_t error = softgpu::enter()) return softgpu::returned(error); \
  } while (0)
