// Entry points of the driver that torch asks the runtime for; others refuse by their name.
#include <cuda.h>

#include <cstring>
#include <utility>

#include "memory.h"
#include "stream.h"

using namespace softgpu;

extern "C" int softgpu_missing(const char* name);

namespace {

CUresult context_state(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
// There is no driver to log.
CUresult log_to(void*, void*, void**) { return CUDA_SUCCESS; }
CUresult log_no_more(void*) { return CUDA_SUCCESS; }

CUresult error_text(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

// Functions that are not written refuse by their name once they are called: torch asks for some
// twenty at its start and calls few of them.
constexpr size_t kMostMissing = 64;
const char* missing_names[kMostMissing];
template <size_t number>
CUresult missing() {
  return static_cast<CUresult>(softgpu_missing(missing_names[number]));
}
template <size_t... numbers>
void* missing_function(size_t number, std::index_sequence<numbers...>) {
  static void* const all[] = {reinterpret_cast<void*>(missing<numbers>)...};
  return all[number];
}
void* refusing(const char* name) {
  static size_t used = 0;
  const Lock held(big);
  if (used == kMostMissing) return nullptr;
  missing_names[used] = strdup(name);
  return missing_function(used++, std::make_index_sequence<kMostMissing>());
}

struct Entry {
  const char* name;
  void* function;
};
template <typename Function>
constexpr Entry entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}
const Entry kEntries[] = {
    entry("cuDeviceGetAttribute", cudaDeviceGetAttribute),
    entry("cuDevicePrimaryCtxGetState", context_state),
    entry("cuGetErrorString", error_text),
    entry("cuLogsRegisterCallback", log_to),
    entry("cuLogsUnregisterCallback", log_no_more),
};

}  // namespace

extern "C" {

void* softgpu_driver(const char* name) {
  for (const Entry& known : kEntries)
    if (strcmp(known.name, name) == 0) return known.function;
  return nullptr;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** pointer, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  *pointer = softgpu_driver(name);
  if (!*pointer) *pointer = refusing(name);
  if (status) *status = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"
