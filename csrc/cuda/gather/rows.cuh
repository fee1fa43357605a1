// Tiling, index checks and vector types of the gather and scatter kernels.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "cuda/common/device.cuh"
#include "cuda/common/launch.cuh"

namespace farpoint::cuda {

constexpr int64_t kStagedBytes = 32 * 1024;  // seven blocks that hold so much share a processor

template <typename Value, int kWidth>
struct alignas(sizeof(Value) * kWidth) Vector {
  Value at[kWidth];
};

__host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <typename Index>
__device__ int64_t checked(Index i, int64_t columns) {
  assert(i >= 0 && i < columns && "idx: an index is out of range");
  return i;
}

// Rows that a block may hold within kStagedBytes, at least one and at most eight.
inline int64_t rows_at_once(int64_t row_bytes, int64_t channels) {
  const int64_t fitting = kStagedBytes / std::max<int64_t>(row_bytes, 1);
  return std::max<int64_t>(1, std::min<int64_t>({fitting, 8, channels}));
}

// A block that holds more leaves room for few others, so it brings the threads itself.
inline unsigned threads_for(int64_t staged_bytes) {
  return staged_bytes <= kStagedBytes ? 256 : 1024;
}

template <typename T>
bool is_aligned(const void* p, int width) {
  return reinterpret_cast<uintptr_t>(p) % (width * sizeof(T)) == 0;
}

}  // namespace farpoint::cuda
