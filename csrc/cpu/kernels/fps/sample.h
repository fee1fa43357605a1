// Farthest point sampling of one finite cloud with the instruction set FARPOINT_SIMD, the name of
// a namespace.
#pragma once

#include "cpu/kernels/fps/parallel_picker.h"
#include "cpu/kernels/fps/pickers.h"

namespace farpoint::cpu::FARPOINT_SIMD {

// `picker` has the start applied. A distance of zero always ends it: all other points lie on
// samples.
template <class Picker>
int64_t sample_with(const FpsJob& job, Picker& picker) {
  Stop stop(job.cancelled, job.deadline);
  job.indices[0] = static_cast<int32_t>(job.start);
  for (int64_t i = 1;; ++i) {
    if (stop.requested()) return kCancelled;
    if (i == job.m && !job.distances) return i;
    const Sample f = picker.farthest();
    if (job.distances) job.distances[i - 1] = __builtin_sqrtf(f.distance);
    if (i == job.m || f.distance <= job.stop_squared) return i;
    job.indices[i] = f.index;
    if (i + 1 < job.m || job.distances) picker.apply(f);
  }
}

// Nanoseconds, fitted to both on one AVX-512 core for clouds of 128 to 120 000 points.
inline bool tree_samples_faster(int64_t points, int64_t samples) {
  const double n = static_cast<double>(points), m = static_cast<double>(samples);
  return 2000 + 8 * n + 80 * m < m * (25 + 0.135 * n);
}

inline int64_t sample_plainly(const FpsJob& job) {
  Bounds bounds;
  if (!finite_bounds(job.xyz, job.n, bounds)) return kNotFinite;
  PlainPicker picker(job.xyz, job.n, job.xyz + 3 * job.start);
  return sample_with(job, picker);
}

inline int64_t sample(const FpsJob& job) {
  if (!tree_samples_faster(job.n, job.m)) return sample_plainly(job);
  // Few samples keep large neighbourhoods: their tree need not be sorted to the last leaf.
  const int64_t around = 8 * job.n / job.m, most = 16 * kUnsorted;
  const int64_t enough = around < kUnsorted ? kUnsorted : around < most ? around : most;
  Team team(job.threads);
  const TreePlan plan = {job.xyz, job.n,         enough,      job.xyz + 3 * job.start,
                         team,    job.cancelled, job.deadline};
  Tree tree(plan);
  {
    Builder builder(plan, tree);  // its memory goes back before the pickers ask for theirs
    const Built built = builder.run();
    if (built != Built::kDone) return built == Built::kCancelled ? kCancelled : kNotFinite;
  }
  if (team.threads() > 1) {
    ParallelPicker parts(job, tree, team);
    parts.run();
    return sample_with(job, parts);
  }
  if (tree.shape.nodes[0] == 2) {
    PairPicker picker(tree);
    return sample_with(job, picker);
  }
  build_upper_levels(tree);
  TreePicker picker(tree);
  return sample_with(job, picker);
}

}  // namespace farpoint::cpu::FARPOINT_SIMD
