// Devices, their attributes, and errors.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "memory.h"
#include "stream.h"

namespace softgpu {
namespace {

constexpr Profile kProfiles[] = {
    {"H100", 90, 132, 232448, 233472, 2048, 32, 50 << 20, 81559},
    {"T4", 75, 40, 65536, 65536, 1024, 16, 4 << 20, 15360},
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
  constexpr size_t kMostMebibytes = 8192;
  const size_t total = std::min(profile().mebibytes, kMostMebibytes) << 20;
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
    say("error", "SOFTGPU_PROFILE: expected H100 or T4, got %s", name.c_str());
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
  count("calls");
  if (getpid() != owner) return cudaErrorInitializationError;
  if (setting("DRIVER", 13000) < 13000) return cudaErrorInsufficientDriver;
  if (devices.empty()) return cudaErrorNoDevice;
  return static_cast<cudaError_t>(sticky.load());
}

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

size_t free_bytes(const Device& device) {
  const size_t gone = device.used + (static_cast<size_t>(setting("TAKEN_MB", 0)) << 20);
  return device.total - std::min(gone, device.total);
}

size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

namespace {

bool is_device(int device) { return device >= 0 && device < static_cast<int>(devices.size()); }

// Errors of a lost device do not keep a program from asking what there is.
cudaError_t enter_lost() {
  const cudaError_t error = enter();
  return error == static_cast<cudaError_t>(sticky.load()) ? cudaSuccess : error;
}

const std::map<int, int>& attributes() {
  static const auto& all = *[] {
    const Profile& p = profile();
    return new std::map<int, int>{
        {cudaDevAttrMaxThreadsPerBlock, 1024},
        {cudaDevAttrMaxBlockDimX, 1024},
        {cudaDevAttrMaxBlockDimY, 1024},
        {cudaDevAttrMaxBlockDimZ, 64},
        {cudaDevAttrMaxGridDimX, 0x7fffffff},
        {cudaDevAttrMaxGridDimY, 65535},
        {cudaDevAttrMaxGridDimZ, 65535},
        {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<int>(p.shared_per_block)},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<int>(p.shared_per_processor)},
        {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMultiProcessorCount, p.processors},
        {cudaDevAttrComputeCapabilityMajor, p.capability / 10},
        {cudaDevAttrComputeCapabilityMinor, p.capability % 10},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrMaxThreadsPerMultiProcessor, p.threads_per_processor},
        {cudaDevAttrMaxBlocksPerMultiprocessor, p.blocks_per_processor},
        {cudaDevAttrMaxRegistersPerBlock, 65536},
        {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrL2CacheSize, static_cast<int>(p.l2_bytes)},
        {cudaDevAttrClockRate, 1'700'000},
    };
  }();
  return all;
}

struct Error {
  cudaError_t code;
  const char *name, *text;
};
#define SOFTGPU_ERROR(code, text) {code, #code, text}
constexpr Error kErrors[] = {
    SOFTGPU_ERROR(cudaSuccess, "no error"),
    SOFTGPU_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SOFTGPU_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SOFTGPU_ERROR(cudaErrorInitializationError, "initialization error"),
    SOFTGPU_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SOFTGPU_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    SOFTGPU_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SOFTGPU_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SOFTGPU_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SOFTGPU_ERROR(cudaErrorNoKernelImageForDevice,
                  "no kernel image is available for execution on the device"),
    SOFTGPU_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SOFTGPU_ERROR(cudaErrorNotReady, "device not ready"),
    SOFTGPU_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SOFTGPU_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SOFTGPU_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    SOFTGPU_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SOFTGPU_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    SOFTGPU_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SOFTGPU_ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    SOFTGPU_ERROR(cudaErrorNotSupported, "operation not supported"),
};

cudaError_t take_last_error(bool forget) {
  const cudaError_t error = sticky ? static_cast<cudaError_t>(sticky.load()) : last_error;
  if (forget) last_error = cudaSuccess;
  return error;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* devices_found) {
  *devices_found = 0;
  if (const cudaError_t error = enter_lost()) return returned(error);
  *devices_found = static_cast<int>(devices.size());
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = enter_lost()) return returned(error);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (const cudaError_t error = enter_lost()) return returned(error);
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("DRIVER", 13000));
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (const cudaError_t error = enter_lost()) return returned(error);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  const Profile& p = profile();
  cudaDeviceProp all = {};
  snprintf(all.name, sizeof all.name, "Software %s", p.name);
  memset(all.uuid.bytes, 0x50 + device, sizeof all.uuid.bytes);
  all.totalGlobalMem = devices[device].total;
  all.major = p.capability / 10;
  all.minor = p.capability % 10;
  all.multiProcessorCount = p.processors;
  all.sharedMemPerBlock = 48 * 1024;
  all.sharedMemPerBlockOptin = p.shared_per_block;
  all.sharedMemPerMultiprocessor = p.shared_per_processor;
  all.reservedSharedMemPerBlock = 1024;
  all.regsPerBlock = all.regsPerMultiprocessor = 65536;
  all.warpSize = 32;
  all.maxThreadsPerBlock = 1024;
  all.maxThreadsPerMultiProcessor = p.threads_per_processor;
  all.maxBlocksPerMultiProcessor = p.blocks_per_processor;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = 0x7fffffff;
  all.maxGridSize[1] = all.maxGridSize[2] = 65535;
  all.l2CacheSize = static_cast<int>(p.l2_bytes);
  all.pciBusID = 16 + device;
  all.cooperativeLaunch = all.unifiedAddressing = all.canMapHostMemory = 1;
  all.concurrentKernels = all.streamPrioritiesSupported = 1;
  *out = all;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = enter_lost()) return returned(error);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  const auto found = attributes().find(attribute);
  *value = found == attributes().end() ? 0 : found->second;
  if (attribute == cudaDevAttrPciBusId) *value = 16 + device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  SOFTGPU_ENTER();
  snprintf(text, size, "0000:%02x:00.0", 16 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  SOFTGPU_ENTER();
  *can = device != peer && is_device(device) && is_device(peer);
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  SOFTGPU_ENTER();
  return returned(is_device(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize() {
  SOFTGPU_ENTER();
  count("cudaDeviceSynchronize");
  synchronize_device(current_device);
  return returned(static_cast<cudaError_t>(sticky.load()));
}

cudaError_t cudaGetLastError() { return take_last_error(true); }
cudaError_t cudaPeekAtLastError() { return take_last_error(false); }

const char* cudaGetErrorName(cudaError_t code) {
  for (const Error& error : kErrors)
    if (error.code == code) return error.name;
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t code) {
  for (const Error& error : kErrors)
    if (error.code == code) return error.text;
  return "unrecognized error code";
}

}  // extern "C"
