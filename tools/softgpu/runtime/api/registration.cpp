// The calls of nvcc's host code (crt/host_runtime.h): kernels of a library.
#include <cstring>

#include "kernel.h"

using namespace softgpu;

namespace {

struct Wrapper {
  unsigned magic, version;
  const unsigned char* data;
  void* more;
};
struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
constexpr unsigned kFatBinary = 0xba55ed50;

thread_local std::vector<Configuration> configurations;

template <typename T>
T read(const unsigned char* from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

// Headers of a fat binary: which kinds of code for which devices it holds.
std::vector<Image> images_of(const unsigned char* data) {
  std::vector<Image> images;
  if (read<unsigned>(data) != kFatBinary) return images;
  const unsigned char* at = data + read<uint16_t>(data + 6);
  const unsigned char* const end = at + read<uint64_t>(data + 8);
  while (at < end) {
    images.push_back({read<uint16_t>(at), static_cast<int>(read<uint32_t>(at + 28))});
    at += read<uint32_t>(at + 4) + read<uint64_t>(at + 8);
  }
  return images;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  const unsigned char* const data = static_cast<Wrapper*>(wrapper)->data;
  return reinterpret_cast<void**>(new Module{images_of(data)});
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  register_function(host, {name, reinterpret_cast<Module*>(module)});
}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

}  // extern "C"
