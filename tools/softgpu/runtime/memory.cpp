#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "stream.h"

namespace softgpu {
namespace {

constexpr size_t kLarge = 2 << 20;  // what cudaMalloc takes from the device at a time
constexpr size_t kPage = 4096;
constexpr size_t kMostPoisoned = 64 << 20;
constexpr int kPoison = 0xcd;

struct Freed {
  uintptr_t begin, end;
  uint64_t number;
};
std::vector<Freed>& freed = *new std::vector<Freed>;
uint64_t calls = 0;

bool injected_failure() {  // SOFTGPU_MALLOC_FAILS_EVERY
  const long every = setting("MALLOC_FAILS_EVERY", 0);
  static long asked = 0;
  if (every == 0 || ++asked % every != 0) return false;
  count("cudaMalloc refused on purpose");
  return true;
}

std::string place(uintptr_t address, size_t bytes) {
  char text[80];
  snprintf(text, sizeof text, "%zu bytes at %#zx", bytes, static_cast<size_t>(address));
  return text;
}

// Neighbours: the block that torch handed out and this access is in, as the call saw them.
std::string why_not_block(const Allocation& allocation, uintptr_t address, size_t bytes,
                          uint64_t number) {
  const auto in = [&](const Block& b) { return address >= b.begin && address + bytes <= b.end; };
  bool was_freed = false;
  const auto next = allocation.blocks.upper_bound(address);
  if (next != allocation.blocks.begin()) {
    const Block& block = std::prev(next)->second;
    if (in(block) && block.born <= number) return "";
  }
  for (const Block& block : allocation.dead) {
    if (!in(block) || block.born > number) continue;
    if (number < block.died) return "";
    was_freed = true;
  }
  return place(address, bytes) + (was_freed ? ": use after free, torch's block was freed"
                                            : ": out of bounds of torch's blocks");
}

}  // namespace

std::map<uintptr_t, Allocation>& allocations = *new std::map<uintptr_t, Allocation>;

uint64_t next_number() {
  const Lock held(big);
  return ++calls;
}

namespace {

unsigned char* reserve_pages(size_t size, int protection) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const memory = mmap(nullptr, size, protection, kFlags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
}

cudaError_t allocate_device(void** out, size_t size) {
  const Lock held(big);
  *out = nullptr;
  if (size == 0) return cudaSuccess;
  Device& device = devices[current_device];
  const size_t taken = rounded(size, kLarge);
  if (injected_failure()) return cudaErrorMemoryAllocation;
  if (taken > free_bytes(device)) {
    count("cudaMalloc out of memory");
    return cudaErrorMemoryAllocation;
  }
  // The guard page between neighbours is never mapped, nor is what programs see.
  unsigned char* const view = reserve_pages(taken + kPage, PROT_NONE);
  unsigned char* const alias = reserve_pages(taken, PROT_READ | PROT_WRITE);
  if (!view || !alias) return cudaErrorMemoryAllocation;
  memset(alias, kPoison, std::min(size, kMostPoisoned));
  const auto begin = reinterpret_cast<uintptr_t>(view);
  allocations[begin] = {begin, size, alias, Kind::kDevice, current_device, taken, false, {}, {}};
  device.used += taken;
  count("cudaMalloc");
  *out = view;
  return cudaSuccess;
}

cudaError_t free_device(void* pointer) {
  if (!pointer) return cudaSuccess;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  int device;
  {
    const Lock held(big);
    const auto found = allocations.find(begin);
    if (found == allocations.end() || found->second.kind != Kind::kDevice)
      return cudaErrorInvalidValue;
    device = found->second.device;
  }
  synchronize_device(device);
  const Lock held(big);
  const Allocation allocation = allocations[begin];
  allocations.erase(begin);
  forget_accesses(begin, allocation.size);
  munmap(allocation.alias, allocation.taken);  // the view stays reserved: no address comes again
  freed.push_back({begin, begin + allocation.taken, next_number()});
  devices[device].used -= allocation.taken;
  count("cudaFree");
  return cudaSuccess;
}

// Mapped twice as well, so that the host's view can be closed while a copy is pending.
cudaError_t allocate_pinned(void** out, size_t size) {
  const Lock held(big);
  const size_t taken = rounded(std::max<size_t>(size, 1), kPage);
  const int file = memfd_create("softgpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(taken)) != 0) return cudaErrorMemoryAllocation;
  constexpr int kBoth = PROT_READ | PROT_WRITE;
  void* const view = mmap(nullptr, taken, kBoth, MAP_SHARED, file, 0);
  void* const alias = mmap(nullptr, taken, kBoth, MAP_SHARED, file, 0);
  close(file);
  if (view == MAP_FAILED || alias == MAP_FAILED) return cudaErrorMemoryAllocation;
  const auto begin = reinterpret_cast<uintptr_t>(view);
  auto* const bytes = static_cast<unsigned char*>(alias);
  allocations[begin] = {begin, size, bytes, Kind::kPinned, current_device, taken, false, {}, {}};
  count("cudaHostAlloc");
  *out = view;
  return cudaSuccess;
}

cudaError_t free_pinned(void* pointer) {
  if (!pointer) return cudaSuccess;
  for (const Device& device : devices) synchronize_device(device.index);
  const Lock held(big);
  const auto found = allocations.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == allocations.end() || found->second.kind != Kind::kPinned)
    return cudaErrorInvalidValue;
  forget_accesses(found->first, found->second.size);
  munmap(found->second.alias, found->second.taken);
  munmap(pointer, found->second.taken);
  allocations.erase(found);
  count("cudaFreeHost");
  return cudaSuccess;
}

// Memory of a shared mapping, which can be mapped again.
cudaError_t lock_host(void* pointer, size_t size) {
  const Lock held(big);
  if (injected_failure()) return cudaErrorMemoryAllocation;
  void* const alias = mremap(pointer, 0, size, MREMAP_MAYMOVE);
  if (alias == MAP_FAILED) return cudaErrorInvalidValue;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  auto* const bytes = static_cast<unsigned char*>(alias);
  allocations[begin] = {begin, size, bytes, Kind::kPinned, current_device, size, false, {}, {}};
  count("cudaHostRegister");
  return cudaSuccess;
}

cudaError_t unlock_host(void* pointer) {
  const Lock held(big);
  const auto found_at = allocations.find(reinterpret_cast<uintptr_t>(pointer));
  if (found_at == allocations.end() || found_at->second.kind != Kind::kPinned)
    return cudaErrorInvalidValue;
  const Allocation& allocation = found_at->second;
  if (is_pending(allocation.begin, allocation.size))
    found("pending", "unregister", "cudaHostUnregister before a copy has ended");
  forget_accesses(allocation.begin, allocation.size);
  munmap(allocation.alias, allocation.size);
  allocations.erase(found_at);
  count("cudaHostUnregister");
  return cudaSuccess;
}

}  // namespace

Allocation* find_allocation(uintptr_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return nullptr;
  Allocation& allocation = (--next)->second;
  return allocation.holds(address, 1) ? &allocation : nullptr;
}

std::string why_not(uintptr_t address, size_t bytes, const Work& work) {
  const Lock held(big);
  const Allocation* const allocation = find_allocation(address);
  if (!allocation) {
    for (const Freed& range : freed)
      if (address >= range.begin && address < range.end)
        return place(address, bytes) + ": use after free, cudaFree was called";
    return place(address, bytes) + ": out of bounds, in no allocation";
  }
  if (!allocation->holds(address, bytes)) return place(address, bytes) + ": out of bounds";
  if (allocation->kind == Kind::kDevice && allocation->device != work.device)
    return place(address, bytes) + ": memory of another device";
  return allocation->in_blocks ? why_not_block(*allocation, address, bytes, work.number) : "";
}

void report_leaks() {
  const Lock held(big);
  for (const auto& [begin, allocation] : allocations) {
    if (allocation.kind != Kind::kDevice || allocation.in_blocks) continue;
    found("leak", std::to_string(begin), place(begin, allocation.size) + ": never freed");
  }
}

}  // namespace softgpu

using namespace softgpu;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  SOFTGPU_ENTER();
  return returned(allocate_device(pointer, bytes));
}

cudaError_t cudaFree(void* pointer) {
  SOFTGPU_ENTER();
  return returned(free_device(pointer));
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  SOFTGPU_ENTER();
  return returned(allocate_pinned(pointer, bytes));
}

cudaError_t cudaFreeHost(void* pointer) {
  SOFTGPU_ENTER();
  return returned(free_pinned(pointer));
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  SOFTGPU_ENTER();
  return returned(lock_host(pointer, bytes));
}

cudaError_t cudaHostUnregister(void* pointer) {
  SOFTGPU_ENTER();
  return returned(unlock_host(pointer));
}

cudaError_t cudaMemGetInfo(size_t* unused, size_t* total) {
  SOFTGPU_ENTER();
  const Lock held(big);
  const Device& device = devices[current_device];
  *total = device.total;
  *unused = free_bytes(device);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  SOFTGPU_ENTER();
  const Lock held(big);
  *out = {};
  const Allocation* const found = find_allocation(reinterpret_cast<uintptr_t>(pointer));
  out->device = found ? found->device : -2;
  if (!found) return cudaSuccess;
  const bool on_device = found->kind == Kind::kDevice;
  out->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  out->devicePointer = const_cast<void*>(pointer);
  out->hostPointer = on_device ? nullptr : const_cast<void*>(pointer);
  return cudaSuccess;
}

}  // extern "C"
