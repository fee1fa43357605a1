// Lists of the k lowest keys: sorted in vector registers, or as a heap.
#pragma once

#include <cstdint>
#include <cstring>

#include FARPOINT_LANES

namespace farpoint::cpu::FARPOINT_SIMD {

// A key goes to its place without a branch: each of the others stays or moves up by one, by two
// comparisons. Keys are below 2^63.
template <int kMost>
class TopK {
 public:
  // Holds `count` <= kMost times `none`, behind keys that are lower than any.
  TopK(int64_t count, uint64_t none) {
    for (int64_t i = 0; i < kMost; ++i) {
      keys_[i / kLanes][i % kLanes] = i < kMost - count ? 0 : static_cast<int64_t>(none);
    }
  }

  uint64_t highest() const { return static_cast<uint64_t>(keys_[kVectors - 1][kLanes - 1]); }
  // The last `count` of them, ascending.
  void read(uint64_t* keys, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = kMost - count + i;
      keys[i] = static_cast<uint64_t>(keys_[at / kLanes][at % kLanes]);
    }
  }

  // No key above the highest changes anything.
  void offer(uint64_t key) {
    const Keys offered = Keys{} + static_cast<int64_t>(key);
    for (int i = kVectors - 1; i >= 0; --i) {
      const Keys below = i > 0 ? keys_[i - 1] : Keys{};
      const Keys before = shifted(below, keys_[i]);
      const Keys moved = before > offered ? before : offered;
      keys_[i] = keys_[i] < moved ? keys_[i] : moved;
    }
  }

 private:
  static constexpr int kLanes = kRegisterBytes / sizeof(int64_t), kVectors = kMost / kLanes;
  typedef int64_t Keys __attribute__((vector_size(kRegisterBytes)));

  // Of each key of `here` the one before it. GCC makes one instruction of the shuffle alone.
  static Keys shifted(Keys below, Keys here) {
#ifdef __clang__
    Keys before = below;
    before[0] = below[kLanes - 1];
    for (int i = 1; i < kLanes; ++i) before[i] = here[i - 1];
    return before;
#else
    Keys order;
    for (int i = 0; i < kLanes; ++i) order[i] = kLanes - 1 + i;
    return __builtin_shuffle(below, here, order);
#endif
  }

  Keys keys_[kVectors];
};

// The lowest of the keys offered, as a heap with the highest of them on top.
template <class Key>
class LowestHeap {
 public:
  LowestHeap(Key* keys, int64_t count, Key none) : keys_(keys), count_(count) {
    for (int64_t i = 0; i < count; ++i) keys[i] = none;
  }
  Key highest() const { return keys_[0]; }
  void replace_highest(Key key) { sift(key, count_); }

  // Ascending from here on, no longer a heap.
  void sort() {
    for (int64_t last = count_ - 1; last > 0; --last) {
      const Key key = keys_[last];
      keys_[last] = keys_[0];
      sift(key, last);
    }
  }

 private:
  // Puts `key` in the place of the top of the first `count` keys.
  void sift(Key key, int64_t count) {
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
      if (child + 1 < count && keys_[child] < keys_[child + 1]) ++child;
      if (keys_[child] <= key) break;
      keys_[at] = keys_[child];
    }
    keys_[at] = key;
  }

  Key* keys_;
  int64_t count_;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
