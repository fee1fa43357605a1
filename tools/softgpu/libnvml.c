// libnvidia-ml.so.1 as far as torch's allocator asks it: there is no fabric and no other process.
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
