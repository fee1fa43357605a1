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

#include "cpu/kernels/fps/partition.h"
#include "cpu/kernels/fps/pickers.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// A sample's distance and row in one number: the larger is sampled first, 0 after all others.
using Key = uint64_t;
constexpr Key kBeforeAll = UINT64_MAX;

inline Key key_of(const Sample& f) {
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

// Takes the samples of one part, concurrently with the workers of the other parts.
class alignas(64) PartitionWorker {
 public:
  PartitionWorker(const Partition& partition, PartitionWorker* all, int self)
      : partition_(partition),
        stop_(partition.job.cancelled, partition.job.deadline),
        workers_(all),
        self_(self),
        tree_(partition.tree, partition.first_node(self), partition.first_node(self + 1)),
        picker_(tree_),
        arena_(bytes()),
        samples_(arena_.take<Key>(max_samples())),
        border_samples_(arena_.take<int32_t>(max_samples())),
        peers_(arena_.take<Peer>(partition.parts)),
        scratch_(arena_.take<Bounds>(BoxBuilder::room(partition.points(self)))) {}

  // Once for each worker, before the first of them advances.
  void prepare() {
    build_upper_levels(tree_);
    BoxBuilder(partition_.tree, partition_.first_point(self_), partition_.points(self_), scratch_)
        .build(boxes_);
    for (int p = 0; p < partition_.parts; ++p) peers_[p] = {kBeforeAll, 0};
  }

  // A try-lock: one thread at a time holds a worker, and only that one calls advance().
  bool try_acquire() { return !is_held() && held_.exchange(1, std::memory_order_acquire) == 0; }
  void release() { held_.store(0, std::memory_order_release); }
  bool is_held() const { return held_.load(std::memory_order_relaxed) != 0; }

  // Takes samples until all are taken, or until the next one waits for a worker that makes no
  // progress. Returns whether it took any.
  bool advance() {
    const int64_t before = sampled_here_;
    for (int waits = 0; waits < kMaxWaits;) {
      const Sample f = picker_.farthest();
      const Key key = key_of(f);
      next_.store(key, std::memory_order_release);
      if (key == 0 || stop_.requested() || ends_before(key)) {
        next_.store(0, std::memory_order_release);
        break;
      }
      bool near = false;
      const int waits_for = first_behind(f, key, near);
      if (waits_for == kNone) {
        take_sample(key, near);
        picker_.apply(f);
        waits = 0;
        // The first that is near enough is taken too: it has the covering radius of those before.
        if (f.distance <= partition_.job.stop_squared) {
          next_.store(0, std::memory_order_release);
          break;
        }
      } else {
        // One that no thread holds would be waited for in vain.
        waits = workers_[waits_for].is_held() ? waits + 1 : kMaxWaits;
        consume(workers_[waits_for], peers_[waits_for]);
      }
    }
    return sampled_here_ != before;
  }

  bool is_done() const { return next_.load(std::memory_order_acquire) == 0; }
  int64_t sampled() const { return sampled_.load(std::memory_order_acquire); }
  Key sample(int64_t i) const { return samples_[i]; }  // i < sampled()

 private:
  // What is known of another worker.
  struct Peer {
    Key next;          // it takes no sample before this one any more
    int64_t consumed;  // of its border samples
  };

  static constexpr int kNone = -1;
  // Some microseconds, which is as far as a worker that a thread holds is behind as a rule.
  static constexpr int kMaxWaits = 128;

  int64_t max_samples() const {
    const int64_t points = partition_.points(self_);
    return (points < partition_.wanted ? points : partition_.wanted) + 1;
  }
  size_t bytes() const {
    return Arena::bytes_for<Key>(max_samples()) + Arena::bytes_for<int32_t>(max_samples()) +
           Arena::bytes_for<Peer>(partition_.parts) +
           Arena::bytes_for<Bounds>(BoxBuilder::room(partition_.points(self_)));
  }

  // The first worker that may still change the point, if any; `near` is whether there is one that
  // the point would change.
  int first_behind(const Sample& f, Key key, bool& near) const {
    const Point p = f.at;
    for (int other = 0; other < partition_.parts; ++other) {
      if (other == self_ || !within(workers_[other].boxes_, p, f.distance)) continue;
      if (peers_[other].next >= key) return other;
      near = true;
    }
    return kNone;
  }

  void take_sample(Key key, bool near) {
    samples_[sampled_here_] = key;
    if (near) {
      border_samples_[published_here_] = static_cast<int32_t>(sampled_here_);
      published_.store(++published_here_, std::memory_order_release);
    }
    sampled_.store(++sampled_here_, std::memory_order_release);
  }

  // Reads how far the other worker has come, and applies what it sampled near this part until then.
  void consume(const PartitionWorker& other, Peer& known) {
    known.next = other.next_.load(std::memory_order_acquire);
    const int64_t published = other.published_.load(std::memory_order_acquire);
    for (; known.consumed < published; ++known.consumed) {
      const Key key = other.samples_[other.border_samples_[known.consumed]];
      const float* xyz = partition_.job.xyz + 3 * static_cast<int64_t>(row_of(key));
      // It may be near a third part only, and this one not yet as far.
      const Sample sample = {distance_of(key), row_of(key), broadcast_point(xyz)};
      if (within(boxes_, sample.at, sample.distance)) picker_.apply(sample);
    }
  }

  // Whether all wanted samples are known to come before this one. The check is not cheap, so it is
  // done when half of what was missing the last time may be there.
  bool ends_before(Key key) {
    if (sampled_here_ < next_check_at_) return false;
    int64_t taken = 0, before = 0;
    for (int p = 0; p < partition_.parts; ++p) taken += workers_[p].sampled();
    next_check_at_ = sampled_here_ + (partition_.wanted - taken) / (2 * partition_.parts);
    if (taken < partition_.wanted) return false;
    for (int p = 0; p < partition_.parts; ++p) before += workers_[p].sampled_before(key);
    return before >= partition_.wanted;
  }

  int64_t sampled_before(Key key) const {
    return count_while(sampled(), [&](int64_t i) { return samples_[i] > key; });
  }

  const Partition& partition_;
  Stop stop_;
  PartitionWorker* const workers_;
  const int self_;
  Tree tree_;
  TreePicker picker_;
  Arena arena_;
  Key* const samples_;             // in order
  int32_t* const border_samples_;  // which samples are near another part
  Peer* const peers_;
  Bounds* const scratch_;
  Node boxes_;
  int64_t sampled_here_ = 0, published_here_ = 0, next_check_at_ = 0;
  // Read by the threads at other workers while this one advances.
  alignas(64) std::atomic<Key> next_{kBeforeAll};  // none before it is taken any more; 0: none
  std::atomic<int64_t> published_{0};              // border samples
  std::atomic<int64_t> sampled_{0};                // samples
  std::atomic<int> held_{0};
};

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
    Sample sample;  // no one reads its place any more
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
