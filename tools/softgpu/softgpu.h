// The interface between the runtime, the executor of kernels and torch's ops on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum SoftgpuAccess { SOFTGPU_LOAD = 1, SOFTGPU_STORE = 2, SOFTGPU_ATOMIC = 3 };

// Where the kernel that runs on this thread reaches bytes of device or pinned memory; null, with
// the reason in `why`, if it may not touch them.
void* softgpu_address(uint64_t address, size_t bytes, SoftgpuAccess access, const char** why);

// The same for work that holds the memory by a range that it touches as a whole.
int softgpu_touch(uint64_t address, size_t bytes, int reads, int writes);
// The runtime's own way to device memory, checked by nothing.
void* softgpu_alias(uint64_t address);
// Queues work in a stream: `run` returns 0 or the error that loses the device. In a capture it runs
// at each replay; `drop` ends `data`.
void softgpu_enqueue(void* stream, const char* what, int (*run)(void*), void* data,
                     void (*drop)(void*));

// torch's allocator handed out a block, or got it back.
void softgpu_block(uint64_t address, size_t bytes, void* stream);
void softgpu_block_freed(uint64_t address);

// Counters and findings, by name.
long softgpu_count(const char* name);
void softgpu_add(const char* name, long by);

// A kernel that the executor holds.
struct SoftgpuKernel {
  const char* name;                             // mangled
  void (*entry)(const void* const* parameters);  // one thread
  const unsigned* sizes;                         // of its parameters
  int parameters;
  int registers;  // of a thread, by ptxas
  int static_shared;
  int most_threads;  // of a block; 0 where it has no bound
};
// What libsoftgpu_kernels.so exports.
int softgpu_kernels(const SoftgpuKernel** kernels);
int softgpu_run(const SoftgpuKernel* kernel, const unsigned grid[3], const unsigned block[3],
                size_t shared, int cooperative, const void* const* parameters, const char** why);
}
