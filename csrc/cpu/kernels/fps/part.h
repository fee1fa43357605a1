// A part of a cloud, whose picks are made beside those of the other parts; see together.h.
#pragma once

#include "cpu/kernels/fps/division.h"
#include "cpu/kernels/fps/picks.h"
#include "cpu/kernels/fps/territory.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// A pick's distance and row in one number: the larger is picked first, 0 after all others.
using Key = uint64_t;
constexpr Key kBeforeAll = UINT64_MAX;

inline Key key_of(const Farthest& f) {
  if (f.distance <= 0) return 0;
  uint32_t distance;
  std::memcpy(&distance, &f.distance, sizeof(distance));
  return Key{distance} << 32 | ~static_cast<uint32_t>(f.index);
}
inline int32_t row_of(Key key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }
inline float distance_of(Key key) {
  const uint32_t bits = static_cast<uint32_t>(key >> 32);
  float distance;
  std::memcpy(&distance, &bits, sizeof(distance));
  return distance;
}

class alignas(64) Part {
 public:
  Part(const Division& division, Part* all, int self)
      : division_(division),
        all_(all),
        self_(self),
        tree_(division.tree, division.first_node(self), division.first_node(self + 1)),
        picker_(tree_),
        block_(bytes()),
        picks_(block_.take<Key>(most_picks())),
        notes_(block_.take<int32_t>(most_picks())),
        others_(block_.take<Other>(division.parts)),
        spare_(block_.take<Bounds>(Surveyor::room(division.points(self)))) {}

  // Once for each part, before the first of them advances.
  void prepare() {
    adopt_nodes(tree_);
    Surveyor(division_.tree, division_.first_point(self_), division_.points(self_), spare_)
        .survey(territory_);
    for (int p = 0; p < division_.parts; ++p) others_[p] = {kBeforeAll, 0};
  }

  // One thread at a time holds a part, and only that one has it advance.
  bool try_hold() { return !is_held() && held_.exchange(1, std::memory_order_acquire) == 0; }
  void let_go() { held_.store(0, std::memory_order_release); }
  bool is_held() const { return held_.load(std::memory_order_relaxed) != 0; }

  // Makes picks until all are made, or until the next one waits for a part that does not come on.
  // Returns whether it made any.
  bool advance() {
    const int64_t before = made_here_;
    for (int waits = 0; waits < kPatience;) {
      const Farthest f = picker_.farthest();
      const Key key = key_of(f);
      next_.store(key, std::memory_order_release);
      if (key == 0 || stopped(division_.job.cancelled) || enough_before(key)) {
        next_.store(0, std::memory_order_release);
        break;
      }
      bool near = false;
      const int waits_for = first_behind(f, key, near);
      if (waits_for == kNone) {
        make(key, near);
        picker_.apply(f);
        waits = 0;
      } else {
        // One that no thread holds would be waited for in vain.
        waits = all_[waits_for].is_held() ? waits + 1 : kPatience;
        hear(all_[waits_for], others_[waits_for]);
      }
    }
    return made_here_ != before;
  }

  bool is_done() const { return next_.load(std::memory_order_acquire) == 0; }
  int64_t made() const { return made_.load(std::memory_order_acquire); }
  Key pick(int64_t i) const { return picks_[i]; }  // one of those made

 private:
  // What is known of another part.
  struct Other {
    Key next;       // it makes no pick before this one any more
    int64_t heard;  // of its notes
  };

  static constexpr int kNone = -1;
  // Some microseconds, which is as far as a part that a thread works on is behind as a rule.
  static constexpr int kPatience = 128;

  int64_t most_picks() const {
    const int64_t points = division_.points(self_);
    return (points < division_.wanted ? points : division_.wanted) + 1;
  }
  size_t bytes() const {
    return Block::bytes_for<Key>(most_picks()) + Block::bytes_for<int32_t>(most_picks()) +
           Block::bytes_for<Other>(division_.parts) +
           Block::bytes_for<Bounds>(Surveyor::room(division_.points(self_)));
  }

  // The first part that may still change the point, if any; `near` is whether there is one that the
  // point would change.
  int first_behind(const Farthest& f, Key key, bool& near) const {
    const Point p = point_of(f);
    for (int other = 0; other < division_.parts; ++other) {
      if (other == self_ || !within(all_[other].territory_, p, f.distance)) continue;
      if (others_[other].next >= key) return other;
      near = true;
    }
    return kNone;
  }

  void make(Key key, bool near) {
    picks_[made_here_] = key;
    if (near) {
      notes_[told_here_] = static_cast<int32_t>(made_here_);
      told_.store(++told_here_, std::memory_order_release);
    }
    made_.store(++made_here_, std::memory_order_release);
  }

  // How far the other part has come, and what it picked near this one until then.
  void hear(const Part& other, Other& known) {
    known.next = other.next_.load(std::memory_order_acquire);
    const int64_t told = other.told_.load(std::memory_order_acquire);
    for (; known.heard < told; ++known.heard) {
      const Key key = other.picks_[other.notes_[known.heard]];
      const float* xyz = division_.job.xyz + 3 * static_cast<int64_t>(row_of(key));
      // It may be a note for a third part only, and this one not yet as far.
      if (!within(territory_, broadcast_point(xyz), distance_of(key))) continue;
      picker_.apply({distance_of(key), row_of(key), xyz[0], xyz[1], xyz[2]});
    }
  }

  // Whether all wanted picks are known to come before this one. To ask is not cheap, so it is done
  // when half of what was missing the last time may be there.
  bool enough_before(Key key) {
    if (made_here_ < asked_again_at_) return false;
    int64_t made = 0, before = 0;
    for (int p = 0; p < division_.parts; ++p) made += all_[p].made();
    asked_again_at_ = made_here_ + (division_.wanted - made) / (2 * division_.parts);
    if (made < division_.wanted) return false;
    for (int p = 0; p < division_.parts; ++p) before += all_[p].made_before(key);
    return before >= division_.wanted;
  }

  int64_t made_before(Key key) const {
    int64_t low = 0, high = made();
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (picks_[middle] > key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  const Division& division_;
  Part* const all_;
  const int self_;
  Tree tree_;
  TreePicker picker_;
  Block block_;
  Key* const picks_;      // in order
  int32_t* const notes_;  // which picks are near another part
  Other* const others_;
  Bounds* const spare_;
  Node territory_;
  int64_t made_here_ = 0, told_here_ = 0, asked_again_at_ = 0;
  // What the threads at other parts look at while this one advances.
  alignas(64) std::atomic<Key> next_{
      kBeforeAll};                // no pick before this one is made any more; 0: none
  std::atomic<int64_t> told_{0};  // notes
  std::atomic<int64_t> made_{0};  // picks
  std::atomic<int> held_{0};
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
