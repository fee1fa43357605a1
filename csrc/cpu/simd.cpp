// The op _cpu_simd: reads or limits the instruction set of the CPU kernels.
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <stdexcept>
#include <string>

#include "cpu/kernels/levels/simd_level.h"

namespace farpoint {
namespace {

std::string cpu_simd(const std::optional<c10::string_view> limit) {
  try {
    if (limit) cpu::limit_simd(std::string(*limit));
    return cpu::name_of(cpu::simd_level());
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CompositeExplicitAutograd, m) { m.impl("_cpu_simd", cpu_simd); }

}  // namespace farpoint
