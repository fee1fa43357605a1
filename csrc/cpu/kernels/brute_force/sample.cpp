// Farthest point sampling by brute force: one sample at a time over all points, the points in
// blocks that a vector register holds, on several threads where a sample is worth them.
#include "cpu/kernels/brute_force/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels/brute_force/blocks.h"
#include "cpu/kernels/fps/batch.h"

namespace farpoint::cpu {
namespace {

// Values that a thread should look at for each sample before another is worth waiting for.
constexpr int64_t kWorthAPart = 100'000;

template <class Real>
bool ends_early(const BruteTask<Real>& task) {
  return task.radius >= 0;
}

// Rows that can be sampled before any other: of a matrix, all.
template <class Real>
std::vector<int32_t> finite_rows(const BruteTask<Real>& task) {
  std::vector<int32_t> rows;
  rows.reserve(task.n);
  for (int64_t row = 0; row < task.n; ++row) {
    const Real* p = task.values + row * task.columns;
    const bool finite =
        task.matrix || std::all_of(p, p + task.columns, [](Real v) { return std::isfinite(v); });
    if (finite) rows.push_back(static_cast<int32_t>(row));
  }
  return rows;
}

// The samples of one cloud so far, and the distance of each point to the nearest of them.
template <class Real>
class Sampler {
 public:
  Sampler(const BruteTask<Real>& task, const std::vector<int32_t>& rows, Team& team)
      : task_(task),
        rows_(rows),
        team_(team),
        blocks_(blocks_of(static_cast<int64_t>(rows.size()))),
        nearest_(blocks_ * kBlock, std::numeric_limits<Real>::infinity()),
        found_(team.threads()) {
    std::fill(nearest_.begin() + rows.size(), nearest_.end(), Real{-1});
    if (!task.matrix)
      points_ = in_blocks(task.values, static_cast<int64_t>(rows.size()), task.columns,
                          [&](int64_t i) { return rows[i]; });
  }

  // Adds the point rows[index]; finds the farthest of the others.
  FarthestPoint<Real> apply(int64_t index) {
    sample_ = task_.values + rows_[index] * task_.columns;
    nearest_[index] = 0;  // a matrix need not say so
    team_.template run<&Sampler::apply_part>(*this);
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
    const BruteKernels<Real>& kernels = brute_kernels<Real>();
    if (task_.matrix) {
      found_[part].value = kernels.apply_row({task_.n, nearest_.data()}, sample_, begin, end);
    } else {
      found_[part].value =
          kernels.apply({points_.data(), task_.columns, nearest_.data()}, sample_, begin, end);
    }
  }

  const BruteTask<Real>& task_;
  const std::vector<int32_t>& rows_;
  Team& team_;
  const int64_t blocks_;
  std::vector<Real> points_, nearest_;
  std::vector<Part> found_;
  const Real* sample_ = nullptr;
};

// Of coordinates the root; of a matrix the distance as it stands.
template <class Real>
Real reported(const BruteTask<Real>& task, Real distance) {
  return task.matrix ? distance : std::sqrt(distance);
}

constexpr int64_t kCancelledSampling = -1;

// Up to min(m, finite rows) samples; the number of them, or kCancelledSampling.
template <class Real>
int64_t sample_finite(const BruteTask<Real>& task, const std::vector<int32_t>& rows, int threads) {
  const int64_t most = std::min<int64_t>(task.m, static_cast<int64_t>(rows.size()));
  const auto start = std::lower_bound(rows.begin(), rows.end(), task.start);
  const bool present = start != rows.end() && *start == task.start;
  Team team(threads);
  Sampler<Real> sampler(task, rows, team);
  int64_t index = present ? start - rows.begin() : 0;
  for (int64_t i = 0;; ++i) {
    if (task.cancelled && task.cancelled->load(std::memory_order_relaxed) != 0) {
      return kCancelledSampling;
    }
    task.indices[i] = rows[index];
    if (i + 1 == most && !task.distances) return most;
    const FarthestPoint<Real> farthest = sampler.apply(index);
    const Real radius = reported(task, farthest.distance);
    if (task.distances) task.distances[i] = radius;
    const bool reached = ends_early(task) && radius <= task.radius;
    if (i + 1 == most || farthest.index < 0 || reached) return i + 1;
    index = farthest.index;
  }
}

// Places from `from` on get the rows that were not sampled, finite ones first, the lowest first.
template <class Real>
void fill(const BruteTask<Real>& task, const std::vector<int32_t>& finite, int64_t from) {
  std::vector<bool> taken(task.n);
  for (int64_t i = 0; i < from; ++i) taken[task.indices[i]] = true;
  const auto take = [&](int64_t row) {
    if (taken[row] || from == task.m) return;
    taken[row] = true;
    if (task.distances) task.distances[from] = 0;
    task.indices[from++] = static_cast<int32_t>(row);
  };
  for (const int32_t row : finite) take(row);
  for (int64_t row = 0; row < task.n && from < task.m; ++row) take(row);
}

template <class Real>
void sample(const BruteTask<Real>& task, int threads) {
  const auto rows = finite_rows(task);
  int64_t sampled = 1;
  if (rows.empty()) {
    task.indices[0] = static_cast<int32_t>(task.start);
    if (task.distances) task.distances[0] = 0;
  } else {
    sampled = sample_finite(task, rows, threads);
  }
  if (sampled != kCancelledSampling && !ends_early(task)) fill(task, rows, sampled);
}

template <class Real>
struct BruteForce {
  using Task = BruteTask<Real>;
  static int64_t values_a_sample(const Task& task) {
    return task.matrix ? task.n : task.n * task.columns;
  }
  // Half a cycle to a cycle for 64 bytes, and more from memory.
  static int64_t cost(const Task& task) {
    const int64_t bytes = values_a_sample(task) * static_cast<int64_t>(sizeof(Real));
    return 10 * task.n + task.m * (100 + bytes / 32);
  }
  static void run(const Task& task, int threads) {
    const int64_t parts = std::max<int64_t>(1, values_a_sample(task) / kWorthAPart);
    sample(task, static_cast<int>(std::min<int64_t>(threads, parts)));
  }
};

}  // namespace

int64_t estimate_nanoseconds(const BruteTask<float>* tasks, int64_t count) {
  return estimate_cost<BruteForce<float>>(tasks, count);
}
int64_t estimate_nanoseconds(const BruteTask<double>* tasks, int64_t count) {
  return estimate_cost<BruteForce<double>>(tasks, count);
}
void furthest_point_sample(const BruteTask<float>* tasks, int64_t count, int threads) {
  Batch<BruteForce<float>>(tasks, count, threads).run();
}
void furthest_point_sample(const BruteTask<double>* tasks, int64_t count, int threads) {
  Batch<BruteForce<double>>(tasks, count, threads).run();
}

}  // namespace farpoint::cpu
