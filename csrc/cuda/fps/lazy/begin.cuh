// First samples of a cloud in the lazy kernel, taken as the grid kernel takes them, and its end
// when they are all there are.
#pragma once

#include "cuda/fps/lazy/tail.cuh"
#include "cuda/fps/lazy/worker.cuh"

namespace farpoint::cuda::lazy {

__device__ inline void load_tiles(Worker& w, const int64_t* order) {
  Key mine = 0;
  w.each_tile([&](int position, bool held) {
    if (!held) return;
    const Cloud& cloud = w.cloud();
    const int64_t place = cloud.first_row + position;
    const int row = order ? static_cast<int>(order[place] - cloud.first_row) : position;
    assert(row >= 0 && row < cloud.n && "furthest_point_sample: offsets do not cover xyz");
    const Point p = cloud.point(row);
    w.points()[position] = with_row(p, row);
    w.nearest()[position] = is_finite(p) ? infinity() : 0.0f;
    mine = larger(mine, first_key(p, row, cloud.start));
  });
  offer(w, &w.state().words[0], mine);
}

// Sample k as the grid kernel takes it. False when there is none to take or none needed.
__device__ inline bool plain_step(Worker& w, int k) {
  const Key winner = __ldcg(&w.state().words[k % kTurns]);
  if (w.writes()) w.state().words[(k + 2) % kTurns] = 0;
  if (w.writes() && k > 0) w.cloud().put_distance(k - 1, distance_of(winner));
  if (k == w.cloud().m || distance_bits(winner) == 0) return false;
  if (w.writes()) w.cloud().put_index(k, row_of(winner));
  if (w.cloud().is_done(k)) return false;
  const Point s = w.cloud().point(row_of(winner));
  Key mine = 0;
  w.each_tile([&](int position, bool held) {
    if (!held) return;
    const float4 v = w.points()[position];
    const float d = fminf(w.nearest()[position], squared_distance(point_of(v), s));
    w.nearest()[position] = d;
    mine = larger(mine, key_of(d, packed_row(v)));
  });
  offer(w, &w.state().words[(k + 1) % kTurns], mine);
  w.shared.group.sync();
  return true;
}

// What is left when the first samples did not all come about.
__device__ inline void finish_early(Worker& w, int k) {
  const bool exhausted = distance_bits(__ldcg(&w.state().words[k % kTurns])) == 0;
  if (!exhausted || k == w.cloud().m || !w.leads()) return;
  if (k == 0) write_all(w);
  if (k > 0) write_tail(w, k);
}

}  // namespace farpoint::cuda::lazy
