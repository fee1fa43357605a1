// Kernels: registered by nvcc's host code, limited as a device limits them, run by the executor.
#pragma once

#include <string>

#include "softgpu.h"
#include "stream.h"

namespace softgpu {

struct Image {
  int kind;  // 1 PTX, 2 machine code
  int capability;
};
struct Module {
  std::vector<Image> images;
};
struct Function {
  std::string name;  // mangled
  const Module* module;
  int dynamic_shared = 48 * 1024;  // that a launch may ask for
  const SoftgpuKernel* code = nullptr;
};

struct Launch {
  dim3 grid, block;
  void** arguments;
  size_t shared;
  Stream* stream;
  bool cooperative;
};

void register_function(const void* host, const Function& function);
Function* find_function(const void* host);
cudaError_t usable(const Function* function);  // whether there is code for the device
int blocks_per_processor(const Function& function, unsigned threads, size_t dynamic_shared);
cudaError_t launch(Function& function, const Launch& launch);
std::string readable(const std::string& mangled);

}  // namespace softgpu
