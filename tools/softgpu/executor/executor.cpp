// Launches of kernels that were translated from PTX, for the runtime.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "threads.h"

namespace {

constexpr int kIllegalAddress = 700, kTimeout = 702, kAssert = 710, kMisaligned = 716;
constexpr int kLaunchFailure = 719;

int code_of(const std::string& why) {
  const auto has = [&](const char* text) { return why.find(text) != std::string::npos; };
  if (has("of bounds") || has("use after free") || has("another device") ||
      has("not in shared memory"))
    return kIllegalAddress;
  if (has("aligned")) return kMisaligned;
  if (has("deadlock") || has("does not end")) return kTimeout;
  return has("leaves lanes out") || has("meet in different") ? kLaunchFailure : kAssert;
}

std::vector<SoftgpuKernel>& kernels() {
  static std::vector<SoftgpuKernel> all;
  return all;
}

}  // namespace

executor::Table::Table(std::initializer_list<SoftgpuKernel> more) {
  kernels().insert(kernels().end(), more);
}

int softgpu_kernels(const SoftgpuKernel** all) {
  *all = kernels().data();
  return static_cast<int>(kernels().size());
}

int softgpu_run(const SoftgpuKernel* kernel, const unsigned grid[3], const unsigned block[3],
                size_t shared, int cooperative, const void* const* parameters, const char** why) {
  if (grid[1] != 1 || grid[2] != 1 || block[1] != 1 || block[2] != 1) {
    *why = "a launch of more than one dimension, which the executor does not know";
    return kLaunchFailure;
  }
  const char* const seed = getenv("SOFTGPU_SEED");
  static const bool seeded = (executor::seed(seed ? strtoul(seed, nullptr, 0) : 0), true);
  static_cast<void>(seeded);
  const executor::Launch launch = {grid[0], block[0], shared, cooperative != 0};
  const long before = executor::warp_operations();
  const int failed = executor::run(launch, [&] { kernel->entry(parameters); });
  softgpu_add("operations of warps", executor::warp_operations() - before);
  if (!failed) return 0;
  static std::string text;
  text = executor::failure();
  executor::reset();
  *why = text.c_str();
  return code_of(text);
}
