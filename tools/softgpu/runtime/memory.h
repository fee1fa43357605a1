// Device and pinned memory: host memory mapped twice, so that the host cannot touch a device's.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "device.h"
#include "sanitizer/order.h"

namespace softgpu {

enum class Kind { kDevice, kPinned };

// A block that torch's allocator handed out, from its call to the call that freed it.
struct Block {
  uintptr_t begin, end;
  uint64_t born, died;  // numbers of calls; died is 0 while it is in use
};

struct Allocation {
  uintptr_t begin;
  size_t size;
  unsigned char* alias;  // where the runtime itself reads and writes it
  Kind kind;
  int device;
  size_t taken;  // of the device's memory
  bool in_blocks = false;
  std::map<uintptr_t, Block> blocks;
  std::vector<Block> dead;

  unsigned char* alias_of(uintptr_t address) const { return alias + (address - begin); }
  bool holds(uintptr_t address, size_t bytes) const {
    return address >= begin && address + bytes <= begin + size;
  }
};

extern std::map<uintptr_t, Allocation>& allocations;  // by their begin
uint64_t next_number();                               // of a call

// The allocation that holds the address; null if there is none. Under `big`.
Allocation* find_allocation(uintptr_t address);
// Why a piece of work may not touch these bytes of a device's memory; empty if it may.
std::string why_not(uintptr_t address, size_t bytes, const Work& work);

// The host may not touch pinned bytes that a queued copy reads (`writes`: writes) until it ended.
void guard_pinned(const void* begin, size_t bytes, bool writes);
void release_pinned(const void* begin, size_t bytes, bool writes);
// Whether such a copy has not ended. Under `big`.
bool is_pending(uintptr_t begin, size_t bytes);

// Handles SIGSEGV of a host that touches these bytes, or a device's; again where another handler
// took its place.
void watch_faults();
// Runs work on a stream's thread; why it faulted, or an empty string.
std::string run_guarded(const std::function<void()>& run);

void report_leaks();

}  // namespace softgpu
