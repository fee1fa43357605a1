// Threads for one call: started, joined, nothing kept.
#pragma once

#include <atomic>

namespace farpoint::cpu {

// Calls body(context, t) for t in [0, threads), t = 0 on the calling thread, and waits for all.
// `body` must not throw.
void run_on_threads(int threads, void (*body)(void* context, int thread), void* context);

// Where all threads of one run_on_threads wait for each other. Waits are microseconds long, so it
// spins, yielding for the case of more threads than cores.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void wait();

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<int> round_{0};
};

}  // namespace farpoint::cpu
