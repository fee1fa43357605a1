// Unsorted list of the lowest keys.
#pragma once

#include <cstdint>

namespace farpoint::cpu::FARPOINT_SIMD {

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
