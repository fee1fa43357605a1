#include "device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sanitizer/fault.h"
#include "memory.h"

namespace softgpu {
namespace {

constexpr Profile kProfiles[] = {
    {"H100", 90, 132, 232448, 233472, 2048, 32, 50 << 20, 81559},
    {"A100", 80, 108, 166912, 167936, 2048, 32, 40 << 20, 40960},
    {"L4", 89, 58, 101376, 102400, 1536, 24, 48 << 20, 23034},
    {"T4", 75, 40, 65536, 65536, 1024, 16, 4 << 20, 15360},
    {"Orin", 87, 16, 166912, 167936, 1536, 16, 4 << 20, 30697},
};

constexpr size_t kContext = 300 << 20;  // what a context takes
pid_t owner = 0;
thread_local cudaError_t last_error = cudaSuccess;

// Indices in CUDA_VISIBLE_DEVICES, up to the first that is no device.
int visible_devices() {
  const int present = static_cast<int>(setting("DEVICES", 1));
  const char* next = getenv("CUDA_VISIBLE_DEVICES");
  if (!next) return present;
  int visible = 0;
  while (*next) {
    char* end;
    const long index = strtol(next, &end, 10);
    if (end == next || index < 0 || index >= present) break;
    ++visible;
    next = *end == ',' ? end + 1 : end;
  }
  return visible;
}

void start() {
  owner = getpid();
  const size_t limit = static_cast<size_t>(setting("MB", 8192));
  const size_t total = std::min(profile().mebibytes, limit) << 20;
  const int visible = visible_devices();
  for (int i = 0; i < visible; ++i) devices.push_back({i, total, kContext, nullptr, {}});
  watch_faults();
  keep_reporting();
  atexit([] {
    if (getpid() != owner) return;
    report_leaks();
    report();
  });
}

}  // namespace

std::vector<Device>& devices = *new std::vector<Device>;
thread_local int current_device = 0;
std::atomic<int> sticky{0};

const Profile& profile() {
  static const Profile chosen = [] {
    const std::string name = text_setting("PROFILE", "H100");
    for (Profile known : kProfiles) {
      if (name != known.name) continue;
      known.processors = static_cast<int>(setting("PROCESSORS", known.processors));
      return known;
    }
    say("error", "SOFTGPU_PROFILE: expected H100, A100, L4, T4 or Orin, got %s", name.c_str());
    abort();
  }();
  return chosen;
}

void lose_device(int code, const std::string& why) {
  int none = 0;
  if (!sticky.compare_exchange_strong(none, code)) return;
  count("devices lost");
  say("device lost", "%s: %s", cudaGetErrorName(static_cast<cudaError_t>(code)), why.c_str());
}

cudaError_t enter() {
  static std::once_flag once;
  std::call_once(once, start);
  if (getpid() != owner) return cudaErrorInitializationError;
  if (setting("DRIVER", 13000) < 13000) return cudaErrorInsufficientDriver;
  if (devices.empty()) return cudaErrorNoDevice;
  return static_cast<cudaError_t>(sticky.load());
}

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t take_last_error(bool forget) {
  const cudaError_t error = sticky ? static_cast<cudaError_t>(sticky.load()) : last_error;
  if (forget) last_error = cudaSuccess;
  return error;
}

size_t free_bytes(const Device& device) {
  const size_t gone = device.used + (static_cast<size_t>(setting("TAKEN_MB", 0)) << 20);
  return device.total - std::min(gone, device.total);
}

size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

}  // namespace softgpu
