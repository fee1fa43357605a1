// The picks of one cloud on several threads: the same picks in the same order as on one.
//
// The cloud is divided into parts, and each picks its own farthest point again and again. When a
// point is picked, no other is farther from the samples, so the new sample changes only what is
// nearer to it than it was to the others. A pick that is farther than that from the boxes of
// another part leaves that part alone, and no pick made there meanwhile can have changed it. A pick
// that is nearer waits until the other part has come as far in the order of all picks, and takes
// note of what was picked there near the border; if it is still the farthest, it is made and noted
// for the other part. At the end the picks of all parts are merged in their order.
//
// This is conservative simulation with the order of picks as its clock: K. M. Chandy, J. Misra,
// "Distributed simulation: a case study in design and verification of distributed programs", IEEE
// Transactions on Software Engineering, 1979.
#pragma once

#include "cpu/kernels/fps/part.h"

namespace farpoint::cpu::FARPOINT_SIMD {

class Parts {
 public:
  // Through a constructor for what comes before: so the destructor runs if memory ends half way.
  Parts(const FpsJob& job, const Tree& tree, Team& team) : Parts(Start{job, tree, team}) {
    for (; made_ < division_.parts; ++made_) new (parts_ + made_) Part(division_, parts_, made_);
  }
  ~Parts() {
    while (made_ > 0) parts_[--made_].~Part();
  }

  // As pick().
  int64_t run() {
    together<&Parts::prepare>();
    together<&Parts::work>();
    return stopped(job_.cancelled) ? kCancelled : merge();
  }

 private:
  struct Start {
    const FpsJob& job;
    const Tree& tree;
    Team& team;
  };
  explicit Parts(const Start& start)
      : job_(start.job),
        team_(start.team),
        division_(start.job, start.tree, start.team.threads()),
        block_(Block::bytes_for<Part>(division_.parts)),
        parts_(block_.take<Part>(division_.parts)) {}

  template <void (Parts::*step)(int thread)>
  void together() {
    team_.run([](void* self, int t) { (static_cast<Parts*>(self)->*step)(t); }, this);
  }

  void prepare(int thread) { parts_[thread].prepare(); }

  // A thread has a part of its own, but goes on with any that nobody holds while its own waits. So
  // none depends on a thread that the system does not let run, except one taken off in mid-pick.
  void work(int thread) {
    constexpr int kSpins = 4;
    for (int spins = 0, left = 1; left > 0;) {
      bool advanced = false;
      left = 0;
      for (int i = 0; i < division_.parts && !advanced; ++i) {
        Part& part = parts_[(thread + i) % division_.parts];
        if (part.is_done()) continue;
        ++left;
        if (!part.try_hold()) continue;
        advanced = !part.is_done() && part.advance();
        part.let_go();
      }
      spins = advanced ? 0 : spins + 1;
      if (spins > kSpins) std::this_thread::yield();
    }
  }

  int64_t merge() {
    Block block(Block::bytes_for<int64_t>(division_.parts));
    int64_t* merged = block.take<int64_t>(division_.parts);
    for (int p = 0; p < division_.parts; ++p) merged[p] = 0;
    job_.indices[0] = static_cast<int32_t>(job_.start);
    for (int64_t i = 1;; ++i) {
      if (i == job_.m && !job_.distances) return i;
      Key first = 0;
      int from = 0;
      for (int p = 0; p < division_.parts; ++p) {
        const Key key = merged[p] < parts_[p].made() ? parts_[p].pick(merged[p]) : 0;
        if (key > first) first = key, from = p;
      }
      ++merged[from];
      if (job_.distances) job_.distances[i - 1] = __builtin_sqrtf(distance_of(first));
      if (i == job_.m || first == 0) return i;
      job_.indices[i] = row_of(first);
    }
  }

  const FpsJob& job_;
  Team& team_;
  const Division division_;
  Block block_;
  Part* const parts_;
  int made_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
