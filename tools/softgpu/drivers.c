// Both libraries of the driver: libcuda.so.1 as far as it is opened by name, with the entry points of
// runtime/api/driver.cpp, and libnvidia-ml.so.1.
void* softgpu_driver(const char* name);
int softgpu_missing(const char* name);

#define FORWARD(name)                                                        \
  int name(void* a, void* b, void* c, void* d) {                             \
    int (*const function)(void*, void*, void*, void*) = softgpu_driver(#name); \
    return function ? function(a, b, c, d) : softgpu_missing(#name);         \
  }
FORWARD(cuDeviceGetAttribute)
FORWARD(cuDevicePrimaryCtxGetState)
FORWARD(cuGetErrorString)

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

// As far as torch's allocator asks: there is no fabric and no other process.
enum { kSuccess = 0, kNotSupported = 3 };

int nvmlInit_v2(void) { return kSuccess; }
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, const void** device) {
  *device = id;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, void* processes) {
  (void)device, (void)processes;
  *count = 0;
  return kSuccess;
}
int nvmlDeviceGetGpuFabricInfoV(void) { return kSuccess; }  // the state stays: not supported
int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return kNotSupported; }
