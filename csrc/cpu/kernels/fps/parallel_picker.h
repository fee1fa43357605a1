// Parallel farthest point sampling of one cloud: the samples of the sequential algorithm, in its
// order.
//
// The cloud is partitioned, and a worker for each part takes the farthest point of its own part
// again and again. When a point is sampled, no other is farther from the samples, so the new sample
// changes only what is nearer to it than it was to the others. A sample that is farther than that
// from the bounding boxes of another part leaves that part alone, and no sample taken there
// meanwhile can have changed it. A sample that is nearer waits until the other worker has come as
// far in the order of all samples, and consumes what was sampled there near the border; if it is
// still the farthest, it is taken and published to the other worker. At the end the samples of all
// workers are merged in order.
//
// This is conservative simulation with the order of samples as its clock: K. M. Chandy, J. Misra,
// "Distributed simulation: a case study in design and verification of distributed programs", IEEE
// Transactions on Software Engineering, 1979.
#pragma once

#include "cpu/kernels/fps/partition_worker.h"

namespace farpoint::cpu::FARPOINT_SIMD {

class ParallelPicker {
 public:
  // Through a delegating constructor, so that the destructor runs if memory ends half way.
  ParallelPicker(const FpsJob& job, const Tree& tree, Team& team)
      : ParallelPicker(Start{job, tree, team}) {
    for (; constructed_ < partition_.parts; ++constructed_)
      new (workers_ + constructed_) PartitionWorker(partition_, workers_, constructed_);
  }
  ~ParallelPicker() {
    while (constructed_ > 0) workers_[--constructed_].~PartitionWorker();
  }

  // Takes the samples. Afterwards this is a picker as those in pickers.h, which has them in order.
  void run() {
    team_.run<&ParallelPicker::prepare>(*this);
    team_.run<&ParallelPicker::work>(*this);
  }

  Sample farthest() {
    Key first = 0;
    for (int p = 0; p < partition_.parts; ++p) {
      const Key key = merged_[p] < workers_[p].sampled() ? workers_[p].sample(merged_[p]) : 0;
      if (key > first) first = key, from_ = p;
    }
    Sample sample;  // its place is of no use any more
    sample.distance = distance_of(first), sample.index = row_of(first);
    return sample;
  }
  void apply(const Sample&) { ++merged_[from_]; }

 private:
  struct Start {
    const FpsJob& job;
    const Tree& tree;
    Team& team;
  };
  explicit ParallelPicker(const Start& start)
      : team_(start.team),
        partition_(start.job, start.tree, start.team.threads()),
        arena_(Arena::bytes_for<PartitionWorker>(partition_.parts) +
               Arena::bytes_for<int64_t>(partition_.parts)),
        workers_(arena_.take<PartitionWorker>(partition_.parts)),
        merged_(arena_.take<int64_t>(partition_.parts)) {
    for (int p = 0; p < partition_.parts; ++p) merged_[p] = 0;
  }

  void prepare(int thread) { workers_[thread].prepare(); }

  // A thread has a worker of its own, but goes on with any free one while its own waits.
  // So none depends on a thread that the system does not schedule, except one preempted in
  // mid-sample.
  void work(int thread) {
    constexpr int kSpins = 4;
    for (int spins = 0, left = 1; left > 0;) {
      bool advanced = false;
      left = 0;
      for (int i = 0; i < partition_.parts && !advanced; ++i) {
        PartitionWorker& worker = workers_[(thread + i) % partition_.parts];
        if (worker.is_done()) continue;
        ++left;
        if (!worker.try_acquire()) continue;
        advanced = !worker.is_done() && worker.advance();
        worker.release();
      }
      spins = advanced ? 0 : spins + 1;
      if (spins > kSpins) std::this_thread::yield();
    }
  }

  Team& team_;
  const Partition partition_;
  Arena arena_;
  PartitionWorker* const workers_;
  int64_t* const merged_;  // samples of each worker
  int constructed_ = 0, from_ = 0;
};

}  // namespace farpoint::cpu::FARPOINT_SIMD
