// Sorted list of the k lowest keys, in vector registers.
#pragma once

#include <cstdint>
#include <cstring>

namespace farpoint::cpu::FARPOINT_SIMD {

// A key goes to its place without a branch: each of the others stays or moves up by one, by two
// comparisons. Eight keys make a vector, which GCC and Clang map to the registers there are. Keys
// are below 2^63.
class TopK {
 public:
  static constexpr int64_t kMost = 64;

  // Holds `count` <= kMost times `none`.
  TopK(int64_t count, uint64_t none) : count_(count), used_((count + 7) / 8 * 8) {
    for (int64_t i = 0; i < 8; ++i) room_[i] = 0;
    for (int64_t i = 0; i < used_; ++i) keys_[i] = none;
  }
  TopK(const TopK&) = delete;
  TopK& operator=(const TopK&) = delete;

  uint64_t highest() const { return keys_[count_ - 1]; }
  const uint64_t* keys() const { return keys_; }

  void offer(uint64_t key) {
    const Keys offered = Keys{} + static_cast<int64_t>(key);
    Keys here, below;
    std::memcpy(&here, keys_ + used_ - 8, sizeof(here));
    for (int64_t i = used_ - 8; i >= 0; i -= 8) {
      std::memcpy(&below, keys_ + i - 8, sizeof(below));
      // Each key's neighbor below. GCC has the first name since version 12 only.
#ifdef __clang__
      const Keys before = __builtin_shufflevector(below, here, 7, 8, 9, 10, 11, 12, 13, 14);
#else
      const Keys before = __builtin_shuffle(below, here, Keys{7, 8, 9, 10, 11, 12, 13, 14});
#endif
      const Keys moved = before > offered ? before : offered;
      const Keys kept = here < moved ? here : moved;
      std::memcpy(keys_ + i, &kept, sizeof(kept));
      here = below;
    }
  }

 private:
  typedef int64_t Keys __attribute__((vector_size(64)));

  const int64_t count_, used_;
  alignas(64) uint64_t room_[8 + kMost];  // in front, eight that are lower than any
  uint64_t* const keys_ = room_ + 8;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
