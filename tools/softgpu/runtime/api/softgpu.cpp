// The runtime's functions for the executor of kernels and torch's ops on the CPU; see softgpu.h.
#include "softgpu.h"

#include <algorithm>

#include "memory.h"
#include "stream.h"

using namespace softgpu;

namespace {

// The block or allocation that an access of the running work was found to be in.
struct Place {
  const Work* work = nullptr;
  uintptr_t begin = 0, end = 0;
  unsigned char* alias = nullptr;
  bool device = false;
};
thread_local Place place;
thread_local std::string reason;

// The largest range around an address that the same check allows.
Place find_place(uint64_t address, const Work& work) {
  const Allocation& allocation = *find_allocation(address);
  Place found = {&work, allocation.begin, allocation.begin + allocation.size, allocation.alias,
                 allocation.kind == Kind::kDevice};
  if (!allocation.in_blocks) return found;
  const auto next = allocation.blocks.upper_bound(address);
  const bool known = next != allocation.blocks.begin();
  const Block block = known ? std::prev(next)->second : Block{};
  const bool whole = known && address < block.end && block.born <= work.number;
  found.begin = whole ? block.begin : address;
  found.end = whole ? block.end : address;  // an old block: looked up each time
  found.alias = allocation.alias_of(found.begin);
  return found;
}

void end_block(Allocation& allocation, std::map<uintptr_t, Block>::iterator block) {
  if (block->second.died == 0) block->second.died = next_number();
  constexpr size_t kMostDead = 4096;
  auto& dead = allocation.dead;
  dead.push_back(block->second);
  allocation.blocks.erase(block);
  if (dead.size() % kMostDead) return;
  const uint64_t oldest = oldest_unfinished();  // work before the end of a block may still use it
  const auto is_over = [oldest](const Block& block) { return block.died <= oldest; };
  dead.erase(std::remove_if(dead.begin(), dead.end(), is_over), dead.end());
}

}  // namespace

extern "C" {

void* softgpu_address(uint64_t address, size_t bytes, SoftgpuAccess access, const char** why) {
  Accesses& accesses = *running();
  const Work* const work = accesses.work().get();
  if (place.work != work || address < place.begin || address + bytes > place.end) {
    const Lock held(big);
    reason = why_not(address, bytes, *work);
    *why = reason.c_str();
    if (!reason.empty()) return nullptr;
    place = find_place(address, *work);
  }
  accesses.add(address, bytes, access & SOFTGPU_LOAD, access & SOFTGPU_STORE, place.device);
  return place.alias + (address - place.begin);
}

int softgpu_touch(uint64_t address, size_t bytes, int reads, int writes) {
  Accesses& accesses = *running();
  const std::string why = why_not(address, bytes, *accesses.work());
  if (!why.empty()) {
    const std::string text = accesses.work()->what + ": " + why;
    found("memory", text, text);
    return cudaErrorIllegalAddress;
  }
  accesses.add(address, bytes, reads, writes);
  return cudaSuccess;
}

void* softgpu_alias(uint64_t address) {
  const Lock held(big);
  const Allocation* const allocation = find_allocation(address);
  return allocation ? allocation->alias_of(address) : nullptr;
}

void softgpu_enqueue(void* stream, const char* what, int (*run)(void*), void* data,
                     void (*drop)(void*)) {
  count("ops of torch");
  const std::shared_ptr<void> held(data, drop);  // a graph runs it any number of times
  enqueue(stream_of(static_cast<cudaStream_t>(stream)), what,
          [run, held](Accesses&) { return run(held.get()); });
}

// Its contents are forgotten in the order of its stream: work before may still read them.
void softgpu_block(uint64_t address, size_t bytes, void* stream) {
  const Lock held(big);
  Allocation* const allocation = find_allocation(address);
  if (!allocation) return;
  allocation->in_blocks = true;
  auto& blocks = allocation->blocks;
  for (auto old = blocks.lower_bound(address); old != blocks.end() && old->first < address + bytes;)
    end_block(*allocation, old++);
  blocks[address] = {address, address + bytes, next_number(), 0};
  Stream* const queue = stream_of(static_cast<cudaStream_t>(stream), allocation->device);
  if (!queue || queue->graph) return;
  enqueue(queue, "", [address, bytes](Accesses&) {
    forget_contents(address, bytes);
    return 0;
  });
}

void softgpu_block_freed(uint64_t address) {
  const Lock held(big);
  Allocation* const allocation = find_allocation(address);
  if (!allocation) return;
  const auto block = allocation->blocks.find(address);
  if (block != allocation->blocks.end()) end_block(*allocation, block);
}

long softgpu_count(const char* name) { return counted(name); }
void softgpu_add(const char* name, long by) { count(name, by); }

// What libraries that are not there would have done, and calls that are not written.
int softgpu_missing(const char* name) {
  found("unsupported", name, name);
  return cudaErrorNotSupported;
}

}  // extern "C"
