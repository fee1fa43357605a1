// Arena allocator: one buffer for a whole cloud, acquired and released at once.
#pragma once

#include <cstddef>

#include "cpu/kernels/spatial/buffer_cache.h"

namespace farpoint::cpu::FARPOINT_SIMD {

class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes) : buffer_(acquire_buffer(bytes)) {}
  ~Arena() { release_buffer(buffer_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The next `count` values of type T, on a cache line of their own.
  template <class T>
  T* take(size_t count) {
    T* p = reinterpret_cast<T*>(static_cast<char*>(buffer_.data) + used_);
    used_ += bytes_for<T>(count);
    return p;
  }
  template <class T>
  static constexpr size_t bytes_for(size_t count) {
    return (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

 private:
  static constexpr size_t kCacheLine = 64;
  Buffer buffer_ = {};
  size_t used_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
