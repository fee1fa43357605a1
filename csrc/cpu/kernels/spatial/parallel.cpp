// Threads for one call: a fork-join helper and a team with barriers between steps.
#include "cpu/kernels/spatial/parallel.h"

#include <system_error>

namespace farpoint::cpu {
namespace {

template <class Condition>
void spin_until(const Condition& met) {
  for (int spins = 0; !met(); ++spins) {
    if (spins > 1000) std::this_thread::yield();
  }
}

// Threads 1 to `threads` - 1, or fewer if the system has no more.
template <class... Work>
std::vector<std::thread> start_threads(int threads, Work... work) {
  std::vector<std::thread> started;
  started.reserve(threads > 1 ? threads - 1 : 0);
  try {
    for (int t = 1; t < threads; ++t) started.emplace_back(work..., t);
  } catch (const std::system_error&) {
  }
  return started;
}

}  // namespace

void run_on_threads(int threads, void (*body)(void* context, int thread), void* context) {
  auto others = start_threads(threads, body, context);
  body(context, 0);
  for (auto& other : others) other.join();
}

Team::Team(int threads) : others_(start_threads(threads, &Team::serve, this)) {
  threads_ = static_cast<int>(others_.size()) + 1;
}

Team::~Team() {
  body_ = nullptr;
  round_.fetch_add(1, std::memory_order_release);
  for (auto& other : others_) other.join();
}

void Team::run(void (*body)(void*, int), void* context) {
  if (threads_ == 1) return body(context, 0);
  body_ = body, context_ = context;
  done_.store(0, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  body(context, 0);
  spin_until([this] { return done_.load(std::memory_order_acquire) == threads_ - 1; });
}

void Team::serve(int thread) {
  for (int round = 1;; ++round) {
    spin_until([&] { return round_.load(std::memory_order_acquire) >= round; });
    if (!body_) return;
    body_(context_, thread);
    done_.fetch_add(1, std::memory_order_acq_rel);
  }
}

}  // namespace farpoint::cpu
