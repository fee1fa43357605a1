// One round of the lazy kernel: flush pending samples, select a threshold, collect the head,
// sample.
#pragma once

#include "cuda/fps/lazy/flush.cuh"
#include "cuda/fps/lazy/head.cuh"
#include "cuda/fps/lazy/radix_select.cuh"
#include "cuda/fps/lazy/tail.cuh"
#include "cuda/fps/lazy/worker.cuh"

namespace farpoint::cuda::lazy {

constexpr int kSmallHead = 1024;

// Loads the samples [from, to) from where the leading block wrote them.
__device__ inline void load_pending(Worker& w, int from, int to) {
  for (int j = threadIdx.x; j < to - from; j += kThreads) {
    const int row = __ldcg(&w.cloud().indices[from + j]) - w.cloud().index_base;
    w.shared.flush.pending[j] = with_row(w.cloud().point(row), row);
  }
  __syncthreads();
}

// Applies `pending` samples to every tile and counts the new keys inside the window.
__device__ inline void flush_and_count(Worker& w, int pending, const Window& window) {
  clear_bins(w.shared.select);
  w.each_tile([&](int position, bool held) {
    const float4 v = held ? w.points()[position] : make_float4(0, 0, 0, 0);
    float d = held ? w.nearest()[position] : 0.0f;
    if (pending > 0) {
      d = flush_tile(point_of(v), d, w.shared.flush, pending);
      if (held) w.nearest()[position] = d;
    }
    count_key(w.shared.select, window, d, packed_row(v));
  });
  publish_bins(w.shared.select, w.state().histograms[w.turn]);
  w.shared.group.sync();
}

// The window's counts are complete; looks elsewhere until a threshold is found.
__device__ inline Choice find_threshold(Worker& w, Window window, int limit) {
  while (true) {
    const int* const histogram = w.state().histograms[w.turn];
    const Choice choice = choose(w.shared.select, histogram, window, limit);
    int* const stale = w.state().histograms[(w.turn + 2) % kTurns];
    if (w.leads()) {
      for (int i = threadIdx.x; i < kBins; i += kThreads) stale[i] = 0;
    }
    w.turn = (w.turn + 1) % kTurns;
    if (choice.found) return choice;
    window = choice.next;
    flush_and_count(w, 0, window);
  }
}

__device__ inline void collect(Worker& w, Key threshold) {
  w.each_tile([&](int position, bool held) {
    const float4 v = held ? w.points()[position] : make_float4(0, 0, 0, 0);
    const float d = held ? w.nearest()[position] : 0.0f;
    const bool wanted = d > 0.0f && key_of(d, packed_row(v)) >= threshold;
    const unsigned votes = __ballot_sync(kAllLanes, wanted);
    if (votes == 0) return;
    int first = 0;
    if (lane_id() == 0) first = atomicAdd(&w.state().collected, __popc(votes));
    const int slot = __shfl_sync(kAllLanes, first, 0) + __popc(votes & lanes_below());
    if (!wanted) return;
    w.head().points[slot] = v;
    w.head().nearest[slot] = d;
  });
  w.shared.group.sync();
}

// The leading block's part of a round.
__device__ inline void lead(Worker& w, const Choice& choice, int k) {
  if (threadIdx.x == 0) w.state().collected = 0;
  if (threadIdx.x < kHeadThreads && choice.count <= kSmallHead) {
    serve<kSmallHead / kHeadThreads>(w.shared, w.head(), choice.count, choice.threshold, k);
  } else if (threadIdx.x < kHeadThreads) {
    serve<kMaxHead / kHeadThreads>(w.shared, w.head(), choice.count, choice.threshold, k);
  }
  __syncthreads();
  const Served served = w.shared.served;
  if (served.exhausted) write_tail(w, served.emitted);
  const bool ends = served.finished || served.exhausted;
  if (threadIdx.x == 0) w.state().emitted = ends ? kFinished : served.emitted;
}

}  // namespace farpoint::cuda::lazy
