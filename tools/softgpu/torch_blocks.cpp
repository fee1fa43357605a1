// Blocks of torch's caching allocator, reported to the runtime: its own calls do not show them.
#include <c10/cuda/CUDACachingAllocator.h>

#include "softgpu.h"

namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

void on_trace(const TraceEntry& entry) {
  const auto address = static_cast<uint64_t>(entry.addr_);
  if (entry.action_ == TraceEntry::Action::ALLOC) {
    softgpu_block(address, entry.size_, entry.stream_);
  } else if (entry.action_ == TraceEntry::Action::FREE_REQUESTED) {
    softgpu_block_freed(address);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void softgpu_watch_blocks() {
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(on_trace);
}
