// SIGSEGV: a host that touches a device's memory, or pinned memory that a copy still uses.
#pragma once

#include <functional>
#include <string>

namespace softgpu {

// Installs the handler, again where another one took its place.
void watch_faults();

// Runs work on a stream's thread; why it faulted, or an empty string.
std::string run_guarded(const std::function<void()>& run);

}  // namespace softgpu
