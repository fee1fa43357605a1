// The Python lines that called the runtime, for reports: SOFTGPU_STACKS=1.
#pragma once

#include <string>

namespace softgpu {

// Empty unless asked for. Takes the GIL, so the caller holds no lock.
std::string caller_stack();

}  // namespace softgpu
