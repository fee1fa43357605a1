#include "cpu/kernels/spatial/parallel.h"

#include <thread>
#include <vector>

namespace farpoint::cpu {

void run_on_threads(int threads, void (*body)(void* context, int thread), void* context) {
  std::vector<std::thread> others;
  others.reserve(threads > 1 ? threads - 1 : 0);
  for (int t = 1; t < threads; ++t) others.emplace_back(body, context, t);
  body(context, 0);
  for (auto& other : others) other.join();
}

void Barrier::wait() {
  if (threads_ == 1) return;
  const int round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
    if (spins > 1000) std::this_thread::yield();
  }
}

}  // namespace farpoint::cpu
