// Samples taken from the head, the points of largest distance that one block holds in registers:
// the rate of a small cloud, whatever the size of the whole.
#pragma once

#include "cuda/fps/lazy/state.cuh"

namespace farpoint::cuda::lazy {

// The points stand in no order, so the lowest row of a tie is found by comparing rows.
template <int kItems>
struct Head {
  Point p[kItems];
  float d[kItems];
  int row[kItems];

  __device__ static int slot(int i) { return i * kHeadThreads + static_cast<int>(threadIdx.x); }

  __device__ void load(const HeadList& list, int count, HeadShared& shared) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const bool held = slot(i) < count;
      const float4 v = held ? __ldcg(&list.points[slot(i)]) : make_float4(0, 0, 0, 0);
      p[i] = point_of(v);
      row[i] = packed_row(v);
      d[i] = held ? __ldcg(&list.nearest[slot(i)]) : 0.0f;
      shared.points[slot(i)] = p[i];
    }
    barrier_sync(1, kHeadThreads);
  }

  __device__ void update(Point sample) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) d[i] = fminf(d[i], squared_distance(p[i], sample));
  }

  __device__ HeadBest best(HeadShared& shared, int turn) const {
    float mine = d[0];
#pragma unroll
    for (int i = 1; i < kItems; ++i) mine = fmaxf(mine, d[i]);
    const float largest = warp_max(mine);
    int lowest_row = kNoRow, item = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const bool better = d[i] == largest && row[i] < lowest_row;
      lowest_row = better ? row[i] : lowest_row;
      item = better ? i : item;
    }
    HeadBest* const records = shared.of_warp[turn % 2];
    const bool wins = warp_min(lowest_row) == lowest_row;
    if (wins) records[warp_id()] = {largest, lowest_row, slot(item)};
    barrier_sync(1, kHeadThreads);
    return best_of(records);
  }

  __device__ static HeadBest best_of(const HeadBest* records) {
    const bool holds = lane_id() < kHeadThreads / kWarp;
    const HeadBest mine = holds ? records[lane_id()] : HeadBest{0.0f, kNoRow, 0};
    const float largest = warp_max(mine.distance);
    const int row = warp_min(mine.distance == largest ? mine.row : kNoRow);
    const unsigned owner = __ballot_sync(kAllLanes, mine.row == row && mine.distance == largest);
    return {largest, row, __shfl_sync(kAllLanes, mine.slot, __ffs(owner) - 1)};
  }
};

// Called by the first kHeadThreads threads. Takes samples while the head's best is at or above the
// threshold, for then it is the best of the cloud; leaves what came of it in shared.served.
template <int kItems>
__device__ void serve(Shared& shared, const HeadList& list, int count, Key threshold, int k) {
  const Cloud& cloud = shared.cloud;
  const bool writes = threadIdx.x == 0;
  Head<kItems> head;
  head.load(list, count, shared.head);
  HeadBest best = head.best(shared.head, k);
  bool finished = false, exhausted = false;
  do {
    if (writes && k > 0) cloud.put_distance(k - 1, best.distance);
    finished = k == cloud.m;
    exhausted = !finished && best.distance == 0.0f;
    if (finished || exhausted) break;
    if (writes) cloud.put_index(k, best.row);
    finished = cloud.is_done(k);
    ++k;
    if (finished) break;
    head.update(shared.head.points[best.slot]);
    best = head.best(shared.head, k);
  } while (key_of(best.distance, best.row) >= threshold);
  if (writes) shared.served = {k, finished, exhausted};
}

}  // namespace farpoint::cuda::lazy
