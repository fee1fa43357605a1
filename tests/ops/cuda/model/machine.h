// CUDA device emulator in one CPU thread: every CUDA thread is a fiber that runs until it waits.
//
// Blocks run one after another in a random order, which is all that CUDA promises, or at once where a
// cooperative launch promises that. Warps take turns in a random order, some of them rarely, and lanes forwards or backwards, so that a result which
// depends on luck shows.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace model {

struct Launch {
  unsigned blocks;
  unsigned threads;
  size_t shared_bytes;
  bool at_once;  // all blocks
};

// Who is running; the kernels read these through threadIdx and blockIdx.
struct Position {
  unsigned thread, block, threads, blocks;
  unsigned slot;  // among the threads that run at once
};
extern Position here;

// Leaves of a tree that warps have gone down to.
extern int64_t leaves;

void seed(unsigned value);
// Of the device that launchers plan for; 4, so that small batches reach every branch.
int processors();
void set_processors(int count);
int run(const Launch& launch, const std::function<void()>& kernel);
const char* failure();

// Stops the launch; every later one answers with the same error.
[[noreturn]] void fail(const char* why);
void reset();

// Called from inside kernels.
void block_barrier();
unsigned random_number();
// Each lane offers a value and gets those of all 32; `what` tells the operation, so that lanes
// which take different turns are noticed.
const uint64_t* warp_exchange(const char* what, uint64_t mine);
unsigned char* shared_memory();
size_t shared_bytes();

// A kernel's PTX in C++, given the addresses of its parameters: what a launch runs instead.
using Translation = void (*)(const void* const* parameters);
void translate(const void* kernel, Translation run);
Translation translation(const void* kernel);

}  // namespace model
