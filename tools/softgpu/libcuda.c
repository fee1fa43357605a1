// libcuda.so.1 as far as it is opened by name: the entry points of runtime/driver.cpp.
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
