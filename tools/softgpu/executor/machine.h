// Runs a kernel in one CPU thread: every CUDA thread is a fiber that runs until it waits.
//
// Blocks run one after another in a random order, which is all that CUDA promises, or at once in a
// cooperative launch. Warps take turns in a random order, some of them rarely, and lanes forwards or
// backwards, so that a result which depends on luck shows.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace executor {

struct Launch {
  unsigned blocks;
  unsigned threads;
  size_t shared_bytes;
  bool at_once;  // all blocks
};

// Who is running: %tid, %ctaid and their like.
struct Position {
  unsigned thread, block, threads, blocks;
  unsigned slot;  // among the threads that run at once
};
extern Position here;

void seed(unsigned value);
int run(const Launch& launch, const std::function<void()>& kernel);
const char* failure();

// Stops the launch; every later one answers with the same error.
[[noreturn]] void fail(const char* why);
void reset();

// Called from inside kernels.
void block_barrier();
unsigned random_number();
// Each lane offers a value and gets those of all 32; `what` names the operation, so that lanes
// which take different turns are noticed.
const uint64_t* warp_exchange(const char* what, uint64_t mine);
unsigned char* shared_memory();
size_t shared_bytes();
// Operations of warps since the process began.
long warp_operations();

}  // namespace executor
