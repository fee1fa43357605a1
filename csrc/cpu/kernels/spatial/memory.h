// One block of memory for a whole cloud, taken and given back in one go.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace farpoint::cpu::FARPOINT_SIMD {

class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes) {
    // Large clouds touch many pages at random: big pages spare most address translations.
    const bool large = bytes >= kLargeBytes;
    const size_t page = large ? kHugePage : kCacheLine;
    const size_t whole = (bytes + page - 1) / page * page;
    data_ = static_cast<char*>(std::aligned_alloc(page, whole));
    if (!data_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (large) madvise(data_, whole, MADV_HUGEPAGE);
#endif
  }
  ~Block() { std::free(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // The next `count` values of type T, on a cache line of their own.
  template <class T>
  T* take(size_t count) {
    T* p = reinterpret_cast<T*>(data_ + used_);
    used_ += bytes_for<T>(count);
    return p;
  }
  template <class T>
  static constexpr size_t bytes_for(size_t count) {
    return (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

 private:
  static constexpr size_t kCacheLine = 64, kHugePage = 2 << 20, kLargeBytes = 8 << 20;
  char* data_ = nullptr;
  size_t used_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
