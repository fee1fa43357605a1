#include "cpu/kernels/spatial/shelf.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace farpoint::cpu {
namespace {

constexpr size_t kCacheLine = 64, kHugePage = 2 << 20, kLargeBytes = 8 << 20;
constexpr size_t kMostKept = 4 << 20;

class Shelf {
 public:
  ~Shelf() {
    for (const Memory& kept : kept_) std::free(kept.data);
  }

  // The smallest piece of at least `bytes`; none has no data.
  Memory take(size_t bytes) {
    Memory* best = nullptr;
    for (Memory& kept : kept_) {
      if (kept.bytes >= bytes && (!best || kept.bytes < best->bytes)) best = &kept;
    }
    return best ? std::exchange(*best, Memory{}) : Memory{};
  }

  // In the place of the smallest piece, empty places first.
  void put(Memory memory) {
    Memory* smallest = kept_;
    for (Memory& kept : kept_) {
      if (kept.bytes < smallest->bytes) smallest = &kept;
    }
    if (smallest->bytes < memory.bytes) std::swap(*smallest, memory);
    std::free(memory.data);
  }

 private:
  Memory kept_[4] = {};
};

thread_local Shelf shelf;

// Large clouds touch many pages at random: big pages spare most address translations.
Memory allocate(size_t bytes) {
  const bool large = bytes >= kLargeBytes;
  const size_t page = large ? kHugePage : kCacheLine;
  const size_t whole = (bytes + page - 1) / page * page;
  void* data = std::aligned_alloc(page, whole);
  if (!data) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (large) madvise(data, whole, MADV_HUGEPAGE);
#endif
  return {data, whole};
}

}  // namespace

Memory take_memory(size_t bytes) {
  const Memory kept = shelf.take(bytes);
  return kept.data ? kept : allocate(bytes);
}

void give_memory(const Memory& memory) {
  if (memory.bytes <= kMostKept) {
    shelf.put(memory);
  } else {
    std::free(memory.data);
  }
}

}  // namespace farpoint::cpu
