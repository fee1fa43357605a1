// Long calls that end when a signal handler of Python raises: the work runs on a thread of its own
// while the calling thread looks for signals.
#include "cpu/interruptible.h"

#include <c10/util/Exception.h>
#include <sys/syscall.h>
#include <torch/library.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>

namespace farpoint {
namespace {

using InterruptCheck = int (*)();

// Set by the Python package, so that nothing here needs the headers of one Python.
std::atomic<InterruptCheck> interrupt_check{nullptr};

// A Ctrl-C is noticed within 100 ms: half of it before a call counts as long, by an estimate that
// may be wrong by a factor of two, and a fifth between two looks. A thread takes 0.03 ms to start.
constexpr int64_t kLongNanoseconds = 25'000'000;
constexpr auto kBetweenChecks = std::chrono::milliseconds(20);

// While a handler runs, calls that it makes are not checked in their turn.
bool checking = false;

bool on_main_thread() { return syscall(SYS_gettid) == getpid(); }

bool must_end(InterruptCheck check) {
  checking = true;
  const bool raised = check() != 0;
  checking = false;
  return raised;
}

void run_checked(const std::vector<cpu::FpsTask>& tasks, int threads, InterruptCheck check,
                 std::atomic<int>& cancelled) {
  auto work = std::async(std::launch::async, [&] {
    cpu::furthest_point_sample(tasks.data(), static_cast<int64_t>(tasks.size()), threads);
  });
  while (work.wait_for(kBetweenChecks) != std::future_status::ready) {
    if (cancelled == 0 && must_end(check)) cancelled = 1;
  }
  work.get();
  TORCH_CHECK(cancelled == 0, "furthest_point_sample: interrupted, as a signal handler raised");
}

void set_interrupt_check(int64_t address) {
  interrupt_check = reinterpret_cast<InterruptCheck>(static_cast<intptr_t>(address));
}

}  // namespace

void run_interruptibly(std::vector<cpu::FpsTask>& tasks, int threads) {
  const auto count = static_cast<int64_t>(tasks.size());
  const InterruptCheck check = interrupt_check;
  if (!check || cpu::estimate_nanoseconds(tasks.data(), count) < kLongNanoseconds ||
      tasks[0].cancelled || !on_main_thread() || checking) {
    return cpu::furthest_point_sample(tasks.data(), count, threads);
  }
  std::atomic<int> cancelled{0};
  for (auto& task : tasks) task.cancelled = &cancelled;
  run_checked(tasks, threads, check, cancelled);
}

TORCH_LIBRARY_IMPL(farpoint, CompositeExplicitAutograd, m) {
  m.impl("_set_interrupt_check", set_interrupt_check);
}

}  // namespace farpoint
