// Devices, their attributes, and errors: the runtime API's functions of these names.
#include <cstdio>
#include <cstring>
#include <map>

#include "stream.h"

using namespace softgpu;

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

}  // namespace

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
