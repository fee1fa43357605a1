// Kernels: registered by nvcc's host code (crt/host_runtime.h), limited as a device limits them, run
// by the executor.
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "memory.h"
#include "softgpu.h"
#include "stream.h"

namespace softgpu {
namespace {

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

constexpr size_t kRegisters = 65536;  // of a processor
constexpr double kCyclesPerMs = 1.7e6;

std::unordered_map<const void*, Function>& functions =
    *new std::unordered_map<const void*, Function>;

std::string readable(const std::string& mangled) {
  int status;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : mangled;
  free(text);
  return result;
}

Function* find_function(const void* host) {
  const Lock held(big);
  const auto found = functions.find(host);
  return found == functions.end() ? nullptr : &found->second;
}

// The executor's library lies in the same folder as this one.
struct Executor {
  std::unordered_map<std::string, const SoftgpuKernel*> kernels;
  decltype(&softgpu_run) run = nullptr;

  Executor() {
    Dl_info self;
    dladdr(reinterpret_cast<void*>(&find_function), &self);
    std::string path = self.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "libsoftgpu_kernels.so";
    void* const library = dlopen(path.c_str(), RTLD_NOW);
    if (!library) {
      say("unsupported", "no kernel can run: %s", dlerror());
      return;
    }
    run = reinterpret_cast<decltype(run)>(dlsym(library, "softgpu_run"));
    const SoftgpuKernel* all;
    const auto list = reinterpret_cast<decltype(&softgpu_kernels)>(dlsym(library, "softgpu_kernels"));
    for (int i = list(&all); i-- > 0;) kernels[all[i].name] = &all[i];
  }
};
const Executor& executor() {
  static const Executor& loaded = *new Executor;
  return loaded;
}

const SoftgpuKernel* find_code(const std::string& name) {
  const auto found = executor().kernels.find(name);
  return found == executor().kernels.end() ? nullptr : found->second;
}

size_t registers_of_block(const SoftgpuKernel& code, unsigned threads) {
  return rounded(static_cast<size_t>(code.registers) * 32, 256) * (rounded(threads, 32) / 32);
}

// Machine code runs on its own major version from its minor one on, PTX on all later ones.
cudaError_t usable(const Function* function) {
  if (!function) return cudaErrorInvalidDeviceFunction;
  const int here = profile().capability;
  for (const Image& image : function->module->images) {
    if (image.kind == 1 && image.capability <= here) return cudaSuccess;
    if (image.kind == 2 && image.capability / 10 == here / 10 && image.capability <= here)
      return cudaSuccess;
  }
  return cudaErrorNoKernelImageForDevice;
}

int blocks_per_processor(const SoftgpuKernel& code, unsigned threads, size_t dynamic_shared) {
  const Profile& p = profile();
  size_t most = std::min<size_t>(p.blocks_per_processor,
                                 p.threads_per_processor / std::max<size_t>(rounded(threads, 32), 1));
  constexpr size_t kReserved = 1024;
  const size_t shared = code.static_shared + dynamic_shared + kReserved;
  most = std::min(most, p.shared_per_processor / shared);
  const size_t registers = registers_of_block(code, threads);
  return static_cast<int>(registers ? std::min(most, kRegisters / registers) : most);
}

// The limits of CUDA C++ Programming Guide, "Compute Capabilities".
cudaError_t check_shape(const Function& function, const Launch& launch) {
  const dim3 &grid = launch.grid, &block = launch.block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) return cudaErrorInvalidConfiguration;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  const SoftgpuKernel& code = *function.code;
  if (launch.shared > static_cast<size_t>(function.dynamic_shared)) return cudaErrorInvalidValue;
  if (code.static_shared + launch.shared > profile().shared_per_block) return cudaErrorInvalidValue;
  if (code.most_threads && threads > static_cast<uint64_t>(code.most_threads))
    return cudaErrorInvalidValue;
  if (registers_of_block(code, static_cast<unsigned>(threads)) > kRegisters)
    return cudaErrorLaunchOutOfResources;
  const int resident = blocks_per_processor(code, static_cast<unsigned>(threads), launch.shared);
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  if (launch.cooperative && blocks > static_cast<uint64_t>(resident) * profile().processors)
    return cudaErrorCooperativeLaunchTooLarge;
  return cudaSuccess;
}

// Arguments are copied by the call, as a launch does.
using Arguments = std::vector<std::vector<unsigned char>>;
Arguments copied(const SoftgpuKernel& code, void** arguments) {
  Arguments copies;
  for (int i = 0; i < code.parameters; ++i) {
    const auto* const bytes = static_cast<const unsigned char*>(arguments[i]);
    copies.emplace_back(bytes, bytes + code.sizes[i]);
  }
  return copies;
}

int injected_fault(const char* name) {
  if (setting("HANG", 0)) {
    count("injected hangs");
    say("injected", "a kernel hangs: %s", name);
    while (setting("HANG", 0)) usleep(1000);
  }
  if (!setting("FAIL", 0)) return 0;
  say("injected", "a kernel fails: %s", name);
  return cudaErrorIllegalAddress;
}

int execute(const SoftgpuKernel& code, const Launch& launch, const Arguments& arguments) {
  if (const int error = injected_fault(code.name)) return error;
  static std::mutex& one_kernel = *new std::mutex;  // the executor has one machine
  const std::lock_guard<std::mutex> held(one_kernel);
  std::vector<const void*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.data());
  const unsigned grid[] = {launch.grid.x, launch.grid.y, launch.grid.z};
  const unsigned block[] = {launch.block.x, launch.block.y, launch.block.z};
  const char* why = "";
  const int error = executor().run(&code, grid, block, launch.shared, launch.cooperative,
                                    pointers.data(), &why);
  if (error) {
    const std::string text = readable(code.name) + ": " + why;
    found("memory", text, text);
  }
  return error;
}

std::string described(const Function& function, const Launch& launch) {
  char text[400];
  snprintf(text, sizeof text, "kernel %.250s <<<%u, %u, %zu>>>%s", readable(function.name).c_str(),
           launch.grid.x, launch.block.x, launch.shared, launch.cooperative ? " at once" : "");
  return text;
}

// torch.cuda._sleep, which tests of streams rely on.
bool sleeps(const Function& function, const Launch& launch) {
  if (function.name.find("spin_kernel") == std::string::npos) return false;
  const auto cycles = *static_cast<const int64_t*>(launch.arguments[0]);
  enqueue(launch.stream, "torch.cuda._sleep", [cycles](Accesses&) {
    usleep(static_cast<useconds_t>(static_cast<double>(cycles) / kCyclesPerMs * 1e3));
    return 0;
  });
  return true;
}

cudaError_t launch(Function& function, const Launch& launch) {
  if (!launch.stream) return cudaErrorInvalidResourceHandle;
  if (launch.stream->device != current_device) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = usable(&function)) return error;
  if (sleeps(function, launch)) return cudaSuccess;
  if (!function.code) function.code = find_code(function.name);
  if (!function.code) {
    found("unsupported", function.name, "kernel " + readable(function.name) + " is not translated");
    return cudaErrorNotSupported;
  }
  const std::string what = described(function, launch);
  if (const cudaError_t error = check_shape(function, launch)) {
    say("refused", "%s: %s", what.c_str(), cudaGetErrorName(error));
    return error;
  }
  count("kernels");
  count("kernel " + readable(function.name).substr(0, 80));
  const SoftgpuKernel& code = *function.code;
  enqueue(launch.stream, what,
          [&code, launch, arguments = copied(code, launch.arguments)](Accesses&) {
            return execute(code, launch, arguments);
          });
  return cudaSuccess;
}

cudaError_t launch_host(const void* host, const Launch& what) {
  SOFTGPU_ENTER();
  Function* const function = find_function(host);
  return returned(function ? launch(*function, what) : cudaErrorInvalidDeviceFunction);
}

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
}  // namespace softgpu

using namespace softgpu;

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return launch_host(function, {grid, block, arguments, shared, stream_of(stream), false});
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  bool at_once = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) {
      at_once = attribute.val.cooperative != 0;
    } else if (attribute.id != cudaLaunchAttributeIgnore) {
      const std::string name = "launch attribute " + std::to_string(attribute.id);
      found("unsupported", name, name);
      return returned(cudaErrorNotSupported);
    }
  }
  const size_t shared = config->dynamicSmemBytes;
  Stream* const stream = stream_of(config->stream);
  return launch_host(function,
                     {config->gridDim, config->blockDim, arguments, shared, stream, at_once});
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  SOFTGPU_ENTER();
  Function* const function = find_function(host);
  if (const cudaError_t error = usable(function)) return returned(error);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (static_cast<size_t>(value) > profile().shared_per_block)
    return returned(cudaErrorInvalidValue);
  function->dynamic_shared = std::max(value, 48 * 1024);
  return cudaSuccess;
}

void** __cudaRegisterFatBinary(void* wrapper) {
  const unsigned char* const data = static_cast<Wrapper*>(wrapper)->data;
  return reinterpret_cast<void**>(new Module{images_of(data)});
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  const Lock held(big);
  functions[host] = {name, reinterpret_cast<Module*>(module)};
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
