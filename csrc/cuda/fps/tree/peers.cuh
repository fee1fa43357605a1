// Progress that the blocks of one cloud's partitions publish to each other.
//
// A part may take its farthest point as soon as no other part can still change it: as soon as none
// that has a box nearer to the point than the point is to the samples may still take a sample
// before it, in the order of keys. While some may, they are polled, and their samples are applied.
//
// No fence is needed. An entry of a log is a key, which is never 0, and is read and written whole,
// as a word is. A word counts the samples before it: who has seen as many has seen all of them, in
// whatever order they became visible.
#pragma once

#include "cuda/fps/tree/partitions.cuh"

namespace farpoint::cuda::tree {

// What a poll has found. Three, used in turn: one is read, one is written, one is cleared.
struct Poll {
  Key next[kMaxPartitions];  // the part takes no more sample before that; 0: none at all
  unsigned near;             // partitions that were behind and have a box near the point
  int arrived;               // pending samples
};

struct PeersShared {
  Poll polls[3];
  Point pending[kMaxWarps * kWarp];
};

class Peers {
 public:
  // Like all that follows, called by the whole block together. A barrier lies between this and the
  // first poll.
  __device__ Peers(const Partitions& partitions, const Box* boxes, const Cloud& cloud, int b,
                   int self, PeersShared& shared)
      : cloud_(cloud),
        cuts_(cloud.n, partitions.count),
        partitions_(partitions.count),
        group_shift_(partitions.group_shift),
        self_(self),
        reach_(min(kWarp, static_cast<int>(blockDim.x) / partitions.count)),
        shared_(shared) {
    words_ = partitions.words + int64_t{b} * partitions_;
    logs_ = partitions.logs + cloud.first_row;
    leaf_boxes_ = boxes + first_leaf(cloud.first_row, b);
    group_boxes_ = partitions.group_boxes + (int64_t{b} * partitions_ << group_shift_);
    hull_ = own_hull();
    peer_ = min(static_cast<int>(threadIdx.x) / reach_, partitions_ - 1);
    polls_ = static_cast<int>(threadIdx.x) < reach_ * partitions_ && peer_ != self_;
    if (threadIdx.x >= kMaxPartitions) return;
    const int part = static_cast<int>(threadIdx.x);
    for (Poll& poll : shared.polls) {
      poll.next[part] = part < partitions_ && part != self_ ? ~Key{0} : 0;
      if (part == 0) poll.near = 0, poll.arrived = 0;
    }
  }

  // This part takes no sample before `key` any more.
  __device__ void publish(Key key) {
    if (threadIdx.x == 0) {
      store_relaxed(words_ + self_, Words{~key, static_cast<Key>(sampled_)});
    }
  }

  __device__ void take(Key key) {
    if (threadIdx.x == 0) store_relaxed(logs_ + cuts_.first_point(self_) + sampled_, key);
    ++sampled_;
  }

  // Whether, when last polled, any other part might still take a sample before `key`.
  __device__ bool is_any_behind(Key key) const { return behind(key) != 0; }

  struct Found {
    int arrived;  // samples of others that may change this part: pending ones
    bool waits;   // another part may still change the point
  };

  __device__ Found poll(const Farthest& f, Key key) {
    const int next = last_ == 0 ? 2 : last_ - 1;
    const Poll& last = shared_.polls[last_];
    last_ = last_ == 2 ? 0 : last_ + 1;
    Poll& found = shared_.polls[last_];
    if (threadIdx.x == 0) shared_.polls[next].near = 0, shared_.polls[next].arrived = 0;
    const Message message = read_peer();
    find_near(point_of(f.at), f.distance, key, last, found);  // while the message is on its way
    consume(message, f.distance, key, last, found);
    __syncthreads();
    const bool waits = behind(key) & found.near;
    return {found.arrived, waits};
  }

  __device__ Point pending(int i) const { return shared_.pending[i]; }
  __device__ int sampled() const { return sampled_; }  // of this part

 private:
  // By all lanes of each warp.
  __device__ Box own_hull() const {
    const Box* const boxes = group_boxes_ + (self_ << group_shift_);
    Box mine = empty_box();
    for (int group = lane_id(); group < 1 << group_shift_; group += kWarp) {
      mine = around(mine, boxes[group]);
    }
    return warp_box(mine);
  }

  // A bit for each.
  __device__ unsigned behind(Key key) const {
    return __ballot_sync(kAllLanes, shared_.polls[last_].next[lane_id()] >= key);
  }

  // What a lane has read of its peer: some lanes read the next entries of its log side by side.
  struct Message {
    Words word;
    Key sample;  // 0: none yet
  };

  __device__ int slot() const { return static_cast<int>(threadIdx.x) & (reach_ - 1); }

  __device__ Message read_peer() const {
    const int entry = consumed_ + slot();
    const bool held = polls_ && entry < cuts_.points_of(peer_);
    const Key* const log = logs_ + cuts_.first_point(peer_);
    return {load_relaxed(words_ + peer_), held ? load_relaxed(log + entry) : 0};
  }

  __device__ void consume(const Message& message, float farthest, Key key, const Poll& last,
                          Poll& found) {
    const unsigned seen = __ballot_sync(kAllLanes, message.sample != 0) >> (lane_id() & -reach_);
    const unsigned missing = ~seen | (reach_ < kWarp ? ~0u << reach_ : 0u);
    const int count = missing != 0 ? __ffs(static_cast<int>(missing)) - 1 : kWarp;
    // One that comes after this part's own next sample lies far from this part, or its block would
    // have waited. To apply it now would be too early.
    if (slot() < count && message.sample > key) {
      deliver(cloud_.point(row_of(message.sample)), farthest, found);
    }
    consumed_ += count;
    if (!polls_ || slot() != 0) return;
    const bool has_all = consumed_ >= static_cast<int>(message.word.high);
    found.next[peer_] = has_all ? ~message.word.low : last.next[peer_];
  }

  // No point of this part is farther from the samples than its farthest.
  __device__ void deliver(Point sample, float farthest, Poll& found) {
    if (!(box_distance(hull_, sample) < farthest)) return;
    shared_.pending[atomicAdd(&found.arrived, 1)] = sample;
  }

  // Partitions behind `key` that have a leaf near the point: a lane looks at a group of leaves, and
  // the warp at the leaves of those that are near.
  __device__ void find_near(Point p, float distance, Key key, const Poll& last, Poll& found) {
    unsigned near = 0;
    const int groups = partitions_ << group_shift_;
    for (int first = warp_id() * kWarp; first < groups; first += static_cast<int>(blockDim.x)) {
      const int group = first + lane_id(), part = group >> group_shift_;
      const bool hit = group < groups && last.next[part] >= key &&
                       box_distance(group_boxes_[group], p) < distance;
      for (unsigned hits = __ballot_sync(kAllLanes, hit); hits != 0; hits &= hits - 1) {
        const int j = first + __ffs(static_cast<int>(hits)) - 1;
        if (has_near_leaf(j, p, distance)) near |= 1u << (j >> group_shift_);
      }
    }
    if (near != 0 && lane_id() == 0) atomicOr(&found.near, near);
  }

  __device__ bool has_near_leaf(int group, Point p, float distance) const {
    const int part = group >> group_shift_;
    const int leaf = (group - (part << group_shift_)) * kGroupLeaves + lane_id();
    const Box* const boxes = leaf_boxes_ + cuts_.first_point(part) / kLeaf;
    const bool near = leaf < cuts_.leaves_of(part) && box_distance(boxes[leaf], p) < distance;
    return __ballot_sync(kAllLanes, near) != 0;
  }

  const Cloud& cloud_;
  const Cuts cuts_;
  const int partitions_, group_shift_, self_;
  const int reach_;  // lanes that poll a peer, a power of two
  PeersShared& shared_;
  Words* words_;
  Key* logs_;
  const Box* leaf_boxes_;
  const Box* group_boxes_;
  Box hull_;
  int peer_;  // that this thread polls, if it does
  bool polls_;
  int consumed_ = 0;  // samples of that peer
  int sampled_ = 0;
  int last_ = 0;  // poll
};

}  // namespace farpoint::cuda::tree
