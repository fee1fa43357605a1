// Thread-local cache of scratch buffers between calls.
#include "cpu/kernels/spatial/buffer_cache.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace farpoint::cpu {
namespace {

constexpr size_t kCacheLine = 64, kHugePage = 2 << 20, kLargeBytes = 8 << 20;
constexpr size_t kMostKept = 4 << 20;

class BufferCache {
 public:
  ~BufferCache() {
    for (const Buffer& kept : kept_) std::free(kept.data);
  }

  // The smallest buffer of at least `bytes`; none has no data.
  Buffer take(size_t bytes) {
    Buffer* best = nullptr;
    for (Buffer& kept : kept_) {
      if (kept.bytes >= bytes && (!best || kept.bytes < best->bytes)) best = &kept;
    }
    return best ? std::exchange(*best, Buffer{}) : Buffer{};
  }

  // In the place of the smallest buffer, empty places first.
  void put(Buffer buffer) {
    Buffer* smallest = kept_;
    for (Buffer& kept : kept_) {
      if (kept.bytes < smallest->bytes) smallest = &kept;
    }
    if (smallest->bytes < buffer.bytes) std::swap(*smallest, buffer);
    std::free(buffer.data);
  }

 private:
  Buffer kept_[4] = {};
};

thread_local BufferCache buffer_cache;

// Large clouds touch many pages at random: big pages spare most address translations.
Buffer allocate(size_t bytes) {
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

Buffer acquire_buffer(size_t bytes) {
  const Buffer kept = buffer_cache.take(bytes);
  return kept.data ? kept : allocate(bytes);
}

void release_buffer(const Buffer& buffer) {
  if (buffer.bytes <= kMostKept) {
    buffer_cache.put(buffer);
  } else {
    std::free(buffer.data);
  }
}

}  // namespace farpoint::cpu
