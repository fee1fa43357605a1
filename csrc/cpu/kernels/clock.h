// Time, as Python's time.monotonic has it.
#pragma once

#include <cstdint>
#include <ctime>

#pragma GCC visibility push(default)
namespace farpoint::cpu {

inline int64_t monotonic_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

}  // namespace farpoint::cpu
#pragma GCC visibility pop
