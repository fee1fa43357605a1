// Runs kernels that were translated from PTX on the machine of tests/ops/cuda/model, for the runtime.
#include <cstdlib>
#include <cstring>
#include <string>

#include "executor.h"
#include "machine.h"

namespace {

constexpr int kIllegalAddress = 700, kTimeout = 702, kAssert = 710, kMisaligned = 716;
constexpr int kLaunchFailure = 719;

int code_of(const std::string& why) {
  const auto tells = [&](const char* text) { return why.find(text) != std::string::npos; };
  if (tells("of bounds") || tells("use after free") || tells("another device") ||
      tells("not in shared memory"))
    return kIllegalAddress;
  if (tells("aligned")) return kMisaligned;
  if (tells("deadlock") || tells("does not end")) return kTimeout;
  return tells("leaves lanes out") || tells("meet in different") ? kLaunchFailure : kAssert;
}

}  // namespace

int softgpu_run(const SoftgpuKernel* kernel, const unsigned grid[3], const unsigned block[3],
                size_t shared, int cooperative, const void* const* parameters, const char** why) {
  if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1) {
    *why = "a launch of more than one dimension, which the executor does not know";
    return kLaunchFailure;
  }
  const char* const seed = getenv("SOFTGPU_SEED");
  static const bool seeded = (model::seed(seed ? strtoul(seed, nullptr, 0) : 0), true);
  static_cast<void>(seeded);
  const model::Launch launch = {grid[0], block[0], shared, cooperative != 0};
  if (model::run(launch, [&] { kernel->entry(parameters); }) == 0) return 0;
  static std::string text;
  text = model::failure();
  model::reset();
  *why = text.c_str();
  return code_of(text);
}
