// Work that is given up: by a flag of its caller, or at a moment of time.monotonic of Python.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace farpoint::cpu {

inline int64_t monotonic_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

inline bool stopped(const std::atomic<int>* cancelled) {
  return cancelled && cancelled->load(std::memory_order_relaxed) != 0;
}

// Whether to give up, asked before each step. The flag is read each time; the clock, which takes a
// third as long as a sample, after several steps, or after one where these took long.
class Stop {
 public:
  Stop(const std::atomic<int>* cancelled, int64_t deadline)
      : cancelled_(cancelled), deadline_(deadline), left_(deadline ? 0 : INT64_MAX) {}

  [[gnu::always_inline]] bool requested() {
    return stopped(cancelled_) || (__builtin_expect(--left_ < 0, 0) && is_late());
  }

 private:
  static constexpr int64_t kSteps = 16, kBrief = 4000;  // nanoseconds

  [[gnu::noinline]] bool is_late() {
    const int64_t before = looked_;
    looked_ = monotonic_ns();
    left_ = looked_ - before < kBrief ? kSteps : 0;
    return looked_ >= deadline_;
  }

  const std::atomic<int>* const cancelled_;
  const int64_t deadline_;
  int64_t left_;  // steps until the clock is read
  int64_t looked_ = 0;
};

}  // namespace farpoint::cpu
