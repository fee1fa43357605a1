// Farthest point sampling of a batch of clouds on the CPU: dispatch by instruction set, threads
// across and within clouds.
#include "cpu/kernels/fps/furthest_point_sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels/finite.h"
#include "cpu/kernels/fps/batch.h"
#include "cpu/kernels/fps/job.h"
#include "cpu/kernels/spatial/simd_level.h"

namespace farpoint::cpu {
namespace {

const FpsBackend& backend() {
#if defined(__x86_64__)
  if (simd_level() == SimdLevel::kAvx512) return fps_avx512;
  if (simd_level() == SimdLevel::kAvx2) return fps_avx2;
#endif
  return fps_plain;
}

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

// Samples from `from` on are the rows not yet sampled, the lowest first. They tie: in a finite
// cloud each lies on a sample; in any other every finite row is a sample already.
void fill(const FpsTask& task, int64_t from) {
  std::vector<bool> taken(task.n);
  for (int64_t i = 0; i < from; ++i) taken[task.indices[i]] = true;
  for (int64_t row = 0; row < task.n && from < task.m; ++row) {
    if (taken[row]) continue;
    if (task.distances) task.distances[from] = 0;
    task.indices[from++] = static_cast<int32_t>(row);
  }
}

bool ends_early(const FpsTask& task) { return task.radius >= 0; }

// The number of samples, or kCancelled, or kNotFinite.
int64_t sample_finite(const FpsTask& task, int threads) {
  const float enough = ends_early(task) ? largest_square(task.radius) : 0;
  const int64_t sampled = backend().sample({task.xyz, task.n, task.m, task.start, task.indices,
                                            task.distances, threads, task.cancelled, enough});
  if (sampled < 0 || sampled == task.m || ends_early(task)) return sampled;
  fill(task, sampled);
  return task.m;
}

// Samples the finite rows as a cloud of their own, then takes the others.
void sample_around_nonfinite(const FpsTask& task, int threads) {
  const FiniteRows points(task.xyz, task.n);
  const int64_t finite = points.count();
  if (finite == 0) {
    task.indices[0] = static_cast<int32_t>(task.start);
    if (task.distances) task.distances[0] = 0;
    if (!ends_early(task)) fill(task, 1);
    return;
  }
  const auto at = std::lower_bound(points.rows.begin(), points.rows.end(), task.start);
  const bool present = at != points.rows.end() && *at == task.start;
  FpsTask inner = task;
  inner.xyz = points.xyz.data(), inner.n = finite, inner.m = std::min(task.m, finite);
  inner.start = present ? at - points.rows.begin() : 0;
  const int64_t sampled = sample_finite(inner, threads);
  if (sampled == kCancelled) return;
  for (int64_t i = 0; i < sampled; ++i) task.indices[i] = points.rows[task.indices[i]];
  if (!ends_early(task)) fill(task, sampled);
}

void sample(const FpsTask& task, int threads) {
  if (task.cancelled && task.cancelled->load(std::memory_order_relaxed) != 0) return;
  if (sample_finite(task, threads) == kNotFinite) sample_around_nonfinite(task, threads);
}

// Nanoseconds, to within a factor of two.
int64_t cost(const FpsTask& task) { return 15 * task.n + 200 * task.m; }
// Threads within one cloud wait for each other now and then, and look at every other part for each
// sample, so more than a few would not help.
constexpr int64_t kWorthAPart = 500'000;
constexpr int64_t kPointsPerPart = 8192;
constexpr int64_t kMostParts = 16;

int most_parts(const FpsTask& task) {
  const int64_t parts = std::min(cost(task) / kWorthAPart, task.n / kPointsPerPart);
  return static_cast<int>(std::clamp<int64_t>(parts, 1, kMostParts));
}

struct Fps {
  using Task = FpsTask;
  static int64_t cost(const FpsTask& task) { return cpu::cost(task); }
  static void run(const FpsTask& task, int threads) {
    sample(task, std::min(threads, most_parts(task)));
  }
};

}  // namespace

int64_t estimate_nanoseconds(const FpsTask* tasks, int64_t count) {
  return estimate_cost<Fps>(tasks, count);
}

void furthest_point_sample(const FpsTask* tasks, int64_t count, int threads) {
  Batch<Fps>(tasks, count, threads).run();
}

}  // namespace farpoint::cpu
