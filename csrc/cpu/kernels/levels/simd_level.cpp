// Run-time selection of the instruction set, from cpuid and FARPOINT_CPU_SIMD.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "cpu/kernels/levels/backend.h"

namespace farpoint::cpu {

namespace plain {
extern const Backend kBackend;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Backend kBackend;
}
namespace avx512 {
extern const Backend kBackend;
}
#endif

namespace {

SimdLevel detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (avx2) return avx512 ? SimdLevel::kAvx512 : SimdLevel::kAvx2;
#endif
  return SimdLevel::kPlain;
}

SimdLevel named(const std::string& name) {
  if (name.empty()) return SimdLevel::kAvx512;
  for (const SimdLevel level : {SimdLevel::kPlain, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (name == name_of(level)) return level;
  }
  throw std::invalid_argument("FARPOINT_CPU_SIMD: expected plain, avx2 or avx512, got " + name);
}

std::atomic<SimdLevel>& limit() {
  static std::atomic<SimdLevel> level = [] {
    const char* wanted = std::getenv("FARPOINT_CPU_SIMD");
    return named(wanted ? wanted : "");
  }();
  return level;
}

}  // namespace

SimdLevel simd_level() {
  static const SimdLevel best = detect();
  return std::min(best, limit().load(std::memory_order_relaxed));
}

const Backend& backend() {
#if defined(__x86_64__)
  if (simd_level() == SimdLevel::kAvx512) return avx512::kBackend;
  if (simd_level() == SimdLevel::kAvx2) return avx2::kBackend;
#endif
  return plain::kBackend;
}

const char* name_of(SimdLevel level) {
  constexpr const char* kNames[] = {"plain", "avx2", "avx512"};
  return kNames[static_cast<int>(level)];
}

void limit_simd(const std::string& name) { limit().store(named(name)); }

}  // namespace farpoint::cpu
