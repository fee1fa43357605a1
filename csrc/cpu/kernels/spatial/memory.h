// One block of memory for a whole cloud, taken and given back in one go.
#pragma once

#include <cstddef>

#include "cpu/kernels/spatial/shelf.h"

namespace farpoint::cpu::FARPOINT_SIMD {

class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes) : memory_(take_memory(bytes)) {}
  ~Block() { give_memory(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // The next `count` values of type T, on a cache line of their own.
  template <class T>
  T* take(size_t count) {
    T* p = reinterpret_cast<T*>(static_cast<char*>(memory_.data) + used_);
    used_ += bytes_for<T>(count);
    return p;
  }
  template <class T>
  static constexpr size_t bytes_for(size_t count) {
    return (count * sizeof(T) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

 private:
  static constexpr size_t kCacheLine = 64;
  Memory memory_ = {};
  size_t used_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
