// The tasks of one call on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <numeric>
#include <vector>

#include "cpu/kernels/spatial/parallel.h"

namespace farpoint::cpu {

// Nanoseconds; a thread takes some 30 000 to start and stop.
constexpr int64_t kWorthAThread = 100'000;

// `Work` has a type Task, its cost(task) in nanoseconds, and run(task, threads).
template <class Work>
int64_t estimate_cost(const typename Work::Task* tasks, int64_t count) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += Work::cost(tasks[i]);
  return sum;
}

// Runs the longest task first so that the last to finish is a short one.
template <class Work>
class Batch {
 public:
  Batch(const typename Work::Task* tasks, int64_t count, int threads)
      : tasks_(tasks), order_(count) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [=](int64_t a, int64_t b) {
      return Work::cost(tasks[a]) > Work::cost(tasks[b]);
    });
    const int64_t work = estimate_cost<Work>(tasks, count);
    const int64_t useful = std::max<int64_t>(1, work / kWorthAThread);
    across_ = static_cast<int>(std::min({int64_t{threads}, count, useful}));
    within_ = std::max(1, threads / std::max(1, across_));
  }

  void run() {
    if (across_ > 0) {
      run_on_threads(across_, [](void* self, int) { static_cast<Batch*>(self)->work(); }, this);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      for (size_t i; !failed_ && (i = next_++) < order_.size();) {
        Work::run(tasks_[order_[i]], within_);
      }
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  const typename Work::Task* tasks_;
  std::vector<int64_t> order_;
  int across_, within_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace farpoint::cpu
