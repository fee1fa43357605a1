// Run-time selection of the instruction set: the best the processor has, unless limited.
#pragma once

#include <string>

#pragma GCC visibility push(default)
namespace farpoint::cpu {

enum class SimdLevel { kPlain, kAvx2, kAvx512 };

// The best level of this processor, or what the environment variable FARPOINT_CPU_SIMD ("plain",
// "avx2", "avx512") or limit_simd asks for where that is lower.
SimdLevel simd_level();
const char* name_of(SimdLevel level);

// Every level gives the same bits, so limiting one is for tests and benchmarks. An empty name
// lifts the limit; an unknown one throws std::invalid_argument.
void limit_simd(const std::string& name);

}  // namespace farpoint::cpu
#pragma GCC visibility pop
