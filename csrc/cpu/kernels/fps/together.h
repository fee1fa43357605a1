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

  // Makes the picks. Afterwards this is a picker as those in picks.h, which has them in order.
  void run() {
    team_.run<&Parts::prepare>(*this);
    team_.run<&Parts::work>(*this);
  }

  Farthest farthest() {
    Key first = 0;
    for (int p = 0; p < division_.parts; ++p) {
      const Key key = merged_[p] < parts_[p].made() ? parts_[p].pick(merged_[p]) : 0;
      if (key > first) first = key, from_ = p;
    }
    return {distance_of(first), row_of(first), 0, 0, 0};
  }
  void apply(const Farthest&) { ++merged_[from_]; }

 private:
  struct Start {
    const FpsJob& job;
    const Tree& tree;
    Team& team;
  };
  explicit Parts(const Start& start)
      : team_(start.team),
        division_(start.job, start.tree, start.team.threads()),
        block_(Block::bytes_for<Part>(division_.parts) +
               Block::bytes_for<int64_t>(division_.parts)),
        parts_(block_.take<Part>(division_.parts)),
        merged_(block_.take<int64_t>(division_.parts)) {
    for (int p = 0; p < division_.parts; ++p) merged_[p] = 0;
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

  Team& team_;
  const Division division_;
  Block block_;
  Part* const parts_;
  int64_t* const merged_;  // picks of each part
  int made_ = 0, from_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
