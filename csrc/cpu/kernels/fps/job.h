// Backend interface of farthest point sampling, one backend per instruction set.
#pragma once

#include <atomic>
#include <cstdint>

namespace farpoint::cpu {

struct FpsJob {
  const float* xyz;  // n rows of 3
  int64_t n;
  int64_t m;  // 1 <= m <= n
  int64_t start;
  int32_t* indices;                   // m
  float* distances;                   // m, or nullptr
  int threads;                        // for this one cloud
  const std::atomic<int>* cancelled;  // or nullptr
  float enough = 0;  // sampling ends where no point is farther than this, a squared distance
};

constexpr int64_t kCancelled = -1;
constexpr int64_t kNotFinite = -2;

// One instruction set. `sample` fills the first samples and returns their number, fewer than m when
// every point left is near `enough`, by default on a chosen one; or kCancelled; or kNotFinite, with
// nothing done, for a cloud with a value that is not finite.
struct FpsBackend {
  const char* name;
  int64_t (*sample)(const FpsJob& job);
};

extern const FpsBackend fps_plain;
#if defined(__x86_64__)
extern const FpsBackend fps_avx2;
extern const FpsBackend fps_avx512;
#endif

}  // namespace farpoint::cpu
