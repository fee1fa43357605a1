// Farthest point sampling of a batch of clouds on the CPU: the sampler of each cloud, rows that are
// not finite, threads across and within clouds.
#include "cpu/kernels/fps/furthest_point_sample.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/kernels/brute_force/sample.h"
#include "cpu/kernels/levels/backend.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/spatial/parallel.h"

namespace farpoint::cpu {
namespace {

// Three float32 dimensions, which have a sampler of their own.
bool is_spatial(const FpsTask& task) { return !task.wide && task.columns == 3; }

bool ends_early(const FpsTask& task) { return task.radius >= 0; }

// The largest squared distance whose root, as it is reported, is at most `radius`.
float largest_square(float radius) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float square = radius * radius;
  while (square > 0 && std::sqrt(square) > radius) square = std::nextafter(square, 0.f);
  for (float next; (next = std::nextafter(square, kInfinity)) > square;) {
    if (std::sqrt(next) > radius) break;
    square = next;
  }
  return square;
}

// The number of samples, or kCancelled, or kNotFinite.
int64_t sample_points(const FpsTask& task, const float* xyz, int64_t n, int64_t start,
                      int threads) {
  const float stop_squared = ends_early(task) ? largest_square(static_cast<float>(task.radius)) : 0;
  return backend().sample({xyz, n, std::min(task.m, n), start, task.indices,
                           static_cast<float*>(task.distances), threads, task.cancelled,
                           task.deadline, stop_squared});
}

// The rows that can be sampled before any other.
std::vector<int32_t> rows_to_sample(const FpsTask& task) {
  return task.wide ? finite_rows(static_cast<const double*>(task.values), task.n, task.columns)
                   : finite_rows(static_cast<const float*>(task.values), task.n, task.columns);
}

void put_zero(const FpsTask& task, int64_t at) {
  const size_t bytes = task.wide ? sizeof(double) : sizeof(float);
  if (task.distances) std::memset(static_cast<char*>(task.distances) + at * bytes, 0, bytes);
}

// The number of samples among `rows`, or kCancelled.
int64_t sample_rows(const FpsTask& task, const std::vector<int32_t>& rows, int threads) {
  if (rows.empty()) {
    task.indices[0] = static_cast<int32_t>(task.start);
    put_zero(task, 0);
    return 1;
  }
  const auto at = std::lower_bound(rows.begin(), rows.end(), task.start);
  const bool present = at != rows.end() && *at == task.start;
  const int64_t start = present ? at - rows.begin() : 0;
  if (task.wide) return sample_by_brute_force<double>(task, rows, start, threads);
  if (!is_spatial(task)) return sample_by_brute_force<float>(task, rows, start, threads);
  const auto xyz = gathered(static_cast<const float*>(task.values), rows);
  const int64_t sampled =
      sample_points(task, xyz.data(), static_cast<int64_t>(rows.size()), start, threads);
  for (int64_t i = 0; i < sampled; ++i) task.indices[i] = rows[task.indices[i]];
  return sampled;
}

// Places from `from` on get the rows that were not sampled, `rows` first, then the lowest first.
// They tie: each of `rows` lies on a sample.
void fill(const FpsTask& task, const std::vector<int32_t>& rows, int64_t from) {
  std::vector<bool> taken(task.n);
  for (int64_t i = 0; i < from; ++i) taken[task.indices[i]] = true;
  const auto take = [&](int64_t row) {
    if (taken[row] || from == task.m) return;
    taken[row] = true;
    put_zero(task, from);
    task.indices[from++] = static_cast<int32_t>(row);
  };
  for (const int32_t row : rows) take(row);
  for (int64_t row = 0; row < task.n && from < task.m; ++row) take(row);
}

// Returns whether the task is finished.
bool sample(const FpsTask& task, int threads) {
  if (Stop(task.cancelled, task.deadline).requested()) return false;
  std::vector<int32_t> rows;
  int64_t sampled = kNotFinite;
  if (is_spatial(task)) {
    const auto* xyz = static_cast<const float*>(task.values);
    sampled = sample_points(task, xyz, task.n, task.start, threads);
  }
  if (sampled == kNotFinite) {
    rows = rows_to_sample(task);
    sampled = sample_rows(task, rows, threads);
  }
  if (sampled == kCancelled) return false;
  if (sampled < task.m && !ends_early(task)) fill(task, rows, sampled);
  return true;
}

// Nanoseconds, to within a factor of two. Brute force takes half a cycle to a cycle for 64 bytes,
// and more from memory.
int64_t cost(const FpsTask& task) {
  if (is_spatial(task)) return 15 * task.n + 200 * task.m;
  const int64_t bytes = task.n * task.columns * (task.wide ? 8 : 4);
  return 10 * task.n + task.m * (100 + bytes / 32);
}

// Threads within one cloud wait for each other now and then, and look at every other part for each
// sample, so more than a few would not help; those of brute force meet at every sample.
int64_t most_threads(const FpsTask& task) {
  constexpr int64_t kCostOfPart = 500'000, kPointsOfPart = 8192, kMostParts = 16;
  constexpr int64_t kValuesOfPart = 100'000;
  if (!is_spatial(task)) return std::max<int64_t>(1, task.n * task.columns / kValuesOfPart);
  const int64_t parts = std::min(cost(task) / kCostOfPart, task.n / kPointsOfPart);
  return std::clamp<int64_t>(parts, 1, kMostParts);
}

// The tasks of one call, the longest first so that the last to finish is a short one.
class Batch {
 public:
  Batch(const FpsTask* tasks, int64_t count, int threads) : tasks_(tasks), order_(count) {
    // Nanoseconds; a thread takes some 30 000 to start and stop.
    constexpr int64_t kWorthAThread = 100'000;
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [=](int64_t a, int64_t b) { return cost(tasks[a]) > cost(tasks[b]); });
    const int64_t whole =
        std::accumulate(tasks, tasks + count, int64_t{0},
                        [](int64_t sum, const FpsTask& task) { return sum + cost(task); });
    const int64_t useful = std::max<int64_t>(1, whole / kWorthAThread);
    across_ = static_cast<int>(std::min({int64_t{threads}, count, useful}));
    within_ = std::max(1, threads / std::max(1, across_));
  }

  // Returns whether all tasks are finished.
  bool run() {
    if (across_ > 0) {
      run_on_threads(across_, [](void* self, int) { static_cast<Batch*>(self)->work(); }, this);
    }
    if (error_) std::rethrow_exception(error_);
    return finished_;
  }

 private:
  void work() {
    try {
      for (size_t i; !failed_ && (i = next_++) < order_.size();) {
        const FpsTask& task = tasks_[order_[i]];
        const auto parts = static_cast<int>(std::min<int64_t>(within_, most_threads(task)));
        if (!sample(task, parts)) finished_ = false;
      }
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  const FpsTask* tasks_;
  std::vector<int64_t> order_;
  int across_, within_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false}, finished_{true};
  std::exception_ptr error_;
};

}  // namespace

bool furthest_point_sample(const FpsTask* tasks, int64_t count, int threads) {
  return Batch(tasks, count, threads).run();
}

}  // namespace farpoint::cpu
