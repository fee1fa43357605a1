// Run-time selection of the instruction set, from cpuid and FARPOINT_CPU_SIMD.
#include "cpu/kernels/spatial/simd_level.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace farpoint::cpu {
namespace {

constexpr SimdLevel kLevels[] = {SimdLevel::kPlain, SimdLevel::kAvx2, SimdLevel::kAvx512};

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
  for (const SimdLevel level : kLevels) {
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

const char* name_of(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return "avx512";
    case SimdLevel::kAvx2:
      return "avx2";
    default:
      return "plain";
  }
}

void limit_simd(const std::string& name) { limit().store(named(name)); }

}  // namespace farpoint::cpu
