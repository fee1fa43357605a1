// Farthest point sampling by brute force: any number of dimensions, float32 or float64. One sample
// at a time over all points, the points in blocks that a vector register holds, on several threads
// where a sample is worth them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels/fps/furthest_point_sample.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/spatial/parallel.h"
#include "cpu/kernels/stop.h"

namespace farpoint::cpu {

// The samples of one cloud so far, and the distance of each point to the nearest of them.
template <class Real>
class BruteSampler {
 public:
  BruteSampler(const FpsTask& task, const std::vector<int32_t>& rows, Team& team)
      : task_(task),
        values_(static_cast<const Real*>(task.values)),
        rows_(rows),
        team_(team),
        blocks_(blocks_of(static_cast<int64_t>(rows.size()))),
        nearest_(blocks_ * kBlock, std::numeric_limits<Real>::infinity()),
        found_(team.threads()) {
    std::fill(nearest_.begin() + rows.size(), nearest_.end(), Real{-1});
    points_ = in_blocks(values_, static_cast<int64_t>(rows.size()), task.columns,
                        [&](int64_t i) { return rows[i]; });
  }

  // Adds the point rows[index]; finds the farthest of the others.
  FarthestPoint<Real> apply(int64_t index) {
    sample_ = values_ + rows_[index] * task_.columns;
    team_.template run<&BruteSampler::apply_part>(*this);
    FarthestPoint<Real> best = found_[0].value;
    for (const Part& part : found_) {  // ascending parts: the first of equals has the lowest index
      if (part.value.distance > best.distance) best = part.value;
    }
    return best;
  }

 private:
  struct alignas(64) Part {
    FarthestPoint<Real> value;
  };

  void apply_part(int part) {
    const int64_t begin = blocks_ * part / team_.threads();
    const int64_t end = blocks_ * (part + 1) / team_.threads();
    found_[part].value = brute_kernels<Real>().apply(
        {points_.data(), task_.columns, nearest_.data()}, sample_, begin, end);
  }

  const FpsTask& task_;
  const Real* const values_;
  const std::vector<int32_t>& rows_;
  Team& team_;
  const int64_t blocks_;
  std::vector<Real> points_, nearest_;
  std::vector<Part> found_;
  const Real* sample_ = nullptr;
};

// Samples rows[start] first, of ascending rows that can be sampled before any other. Returns the
// number of samples, or kCancelled.
template <class Real>
int64_t sample_by_brute_force(const FpsTask& task, const std::vector<int32_t>& rows, int64_t start,
                              int threads) {
  const int64_t most = std::min<int64_t>(task.m, static_cast<int64_t>(rows.size()));
  Real* const distances = static_cast<Real*>(task.distances);
  Team team(threads);
  BruteSampler<Real> sampler(task, rows, team);
  Stop stop(task.cancelled, task.deadline);
  int64_t index = start;
  for (int64_t i = 0;; ++i) {
    if (stop.requested()) return kCancelled;
    task.indices[i] = rows[index];
    if (i + 1 == most && !distances) return most;
    const FarthestPoint<Real> farthest = sampler.apply(index);
    const Real radius = std::sqrt(farthest.distance);
    if (distances) distances[i] = radius;
    const bool reached = task.radius >= 0 && radius <= static_cast<Real>(task.radius);
    if (i + 1 == most || farthest.index < 0 || reached) return i + 1;
    index = farthest.index;
  }
}

}  // namespace farpoint::cpu
