// Entry points of the driver that torch asks the runtime for: contexts, and the virtual memory of
// expandable segments.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "memory.h"
#include "stream.h"

using namespace softgpu;

extern "C" int softgpu_missing(const char* name);

namespace {

constexpr size_t kLarge = 2 << 20;

struct Physical {
  size_t size;
  int device;
  int file;
  int users = 1;
};
struct Mapped {
  Physical* memory;
  size_t size;
};
std::map<uintptr_t, Mapped>& mapped = *new std::map<uintptr_t, Mapped>;

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

CUresult reserve(CUdeviceptr* pointer, size_t size, size_t, CUdeviceptr, unsigned long long) {
  const Lock held(big);
  unsigned char* const view = reserve_pages(size, PROT_NONE);
  unsigned char* const alias = reserve_pages(size, PROT_NONE);
  if (!view || !alias) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(view);
  allocations[*pointer] = {*pointer, size, alias, Kind::kDevice, current_device, 0, true, {}, {}};
  return CUDA_SUCCESS;
}

CUresult unreserve(CUdeviceptr pointer, size_t size) {
  const Lock held(big);
  const auto found = allocations.find(pointer);
  if (found == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(found->second.alias, size);
  allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* what,
                unsigned long long) {
  if (const cudaError_t error = enter()) return static_cast<CUresult>(error);
  const Lock held(big);
  Device& device = devices[what->location.id];
  if (injected_failure()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (size > free_bytes(device)) {
    count("cuMemCreate out of memory");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const int file = memfd_create("softgpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += size;
  count("cuMemCreate");
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(
      new Physical{size, device.index, file});
  return CUDA_SUCCESS;
}

void drop(Physical* memory) {
  if (--memory->users > 0) return;
  devices[memory->device].used -= memory->size;
  close(memory->file);
  count("cuMemRelease");
  delete memory;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  const Lock held(big);
  drop(reinterpret_cast<Physical*>(handle));
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  const Lock held(big);
  Allocation* const range = find_allocation(pointer);
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  auto* const memory = reinterpret_cast<Physical*>(handle);
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  void* const at = mmap(range->alias_of(pointer), size, kBoth, MAP_SHARED | MAP_FIXED, memory->file,
                        static_cast<off_t>(offset));
  if (at == MAP_FAILED) return CUDA_ERROR_UNKNOWN;
  ++memory->users;
  range->device = memory->device;
  mapped[pointer] = {memory, size};
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }

// The driver does not promise to wait; work at these pages would fault.
CUresult unmap(CUdeviceptr pointer, size_t size) {
  for (const Device& device : devices) synchronize_device(device.index);
  const Lock held(big);
  Allocation* const range = find_allocation(pointer);
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  auto next = mapped.lower_bound(pointer);
  while (next != mapped.end() && next->first < pointer + size) {
    drop(next->second.memory);
    next = mapped.erase(next);
  }
  forget_accesses(pointer, size);
  mmap(range->alias_of(pointer), size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  count("cuMemUnmap");
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
    entry("cuMemAddressReserve", reserve),
    entry("cuMemAddressFree", unreserve),
    entry("cuMemCreate", create),
    entry("cuMemRelease", release),
    entry("cuMemMap", map),
    entry("cuMemSetAccess", set_access),
    entry("cuMemUnmap", unmap),
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
