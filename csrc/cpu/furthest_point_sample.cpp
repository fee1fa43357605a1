// CPU implementation of the furthest_point_sample ops: checks, tasks per cloud, registration.
#include "cpu/kernels/fps/furthest_point_sample.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <atomic>
#include <tuple>
#include <vector>

#include "checks_sampling.h"
#include "cpu/interruptible.h"

namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

// Per-cloud integers as contiguous int64; undefined where the caller gave none.
at::Tensor int64_or_none(const std::optional<at::Tensor>& values) {
  return values ? values->to(at::kLong).contiguous() : at::Tensor();
}

int64_t value_or(const at::Tensor& values, int64_t cloud, int64_t missing) {
  return values.defined() ? values.const_data_ptr<int64_t>()[cloud] : missing;
}

void check_start(int64_t start, int64_t points, int64_t cloud) {
  TORCH_CHECK_INDEX(start >= 0 && start < points, "start: expected 0 <= start < ", points,
                    " for cloud ", cloud, ", got ", start);
}

void check_samples(int64_t m, int64_t points, int64_t cloud) {
  TORCH_CHECK_VALUE(points >= 1, "xyz: expected at least one point, got an empty cloud ", cloud);
  TORCH_CHECK_VALUE(m >= 1 && m <= points, "num_samples: expected 1 to ", points,
                    ", the points of cloud ", cloud, ", got ", m);
}

// The radius at which each cloud ends; negative for one that does not end early, which only
// servers may ask for.
std::vector<double> radii_of(const std::optional<at::Tensor>& radius, int64_t clouds,
                             bool may_be_negative = false) {
  if (!radius) return std::vector<double>(clouds, -1);
  const auto values = radius->to(at::kDouble).contiguous();
  const double* first = values.const_data_ptr<double>();
  for (int64_t b = 0; b < clouds; ++b) {
    TORCH_CHECK_VALUE(first[b] >= 0 || may_be_negative,
                      "radius: expected a non-negative number for cloud ", b, ", got ", first[b]);
  }
  return {first, first + clouds};
}

// Indices and distances; where clouds may end early, the places left are filled beforehand.
Tensors outputs(const at::Tensor& xyz, at::IntArrayRef shape, bool return_distances,
                bool ends_early) {
  auto indices = at::empty(shape, xyz.options().dtype(at::kInt));
  const auto options = xyz.options().dtype(distance_type(xyz));
  auto distances = return_distances ? at::empty(shape, options) : at::empty({0}, options);
  if (ends_early) {
    indices.fill_(-1);
    distances.zero_();
  }
  return {indices, distances};
}

// One cloud of a batch: rows of the coordinates, places of the outputs.
struct CloudSample {
  int64_t row, n, m, start, place;
  double radius = -1;
  const std::atomic<int>* cancelled = nullptr;
};

struct Sampling {
  at::Tensor points;  // contiguous; a matrix of distances has its N columns
  bool matrix = false;
  std::vector<CloudSample> clouds;
  Tensors outputs;
  bool return_distances;
};

template <class Real>
Real* distances_at(const Sampling& s, int64_t place) {
  return s.return_distances ? std::get<1>(s.outputs).mutable_data_ptr<Real>() + place : nullptr;
}

void run_spatial(const Sampling& s) {
  const float* const xyz = s.points.const_data_ptr<float>();
  int32_t* const indices = std::get<0>(s.outputs).mutable_data_ptr<int32_t>();
  std::vector<cpu::FpsTask> tasks;
  for (const auto& c : s.clouds) {
    tasks.push_back({xyz + c.row * 3, c.n, c.m, c.start, indices + c.place,
                     distances_at<float>(s, c.place), c.cancelled, static_cast<float>(c.radius)});
  }
  run_interruptibly(tasks, at::get_num_threads());
}

template <class Real>
void run_brute_force(const Sampling& s) {
  const Real* const values = s.points.const_data_ptr<Real>();
  const int64_t columns = s.points.size(-1);
  int32_t* const indices = std::get<0>(s.outputs).mutable_data_ptr<int32_t>();
  std::vector<cpu::BruteTask<Real>> tasks;
  for (const auto& c : s.clouds) {
    tasks.push_back({values + c.row * columns, c.n, columns, s.matrix, c.m, c.start,
                     indices + c.place, distances_at<Real>(s, c.place), c.cancelled,
                     static_cast<Real>(c.radius)});
  }
  run_interruptibly(tasks, at::get_num_threads());
}

void run(const Sampling& s) {
  if (s.points.scalar_type() == at::kDouble) return run_brute_force<double>(s);
  if (s.matrix || s.points.size(-1) > 3) return run_brute_force<float>(s);
  run_spatial(s);
}

// The clouds of (B, N, ...), each with m samples.
void add_dense_clouds(Sampling& s, int64_t m, const std::optional<at::Tensor>& start,
                      const std::optional<at::Tensor>& lengths,
                      const std::optional<at::Tensor>& radius) {
  const int64_t batch = s.points.size(0), n = s.points.size(1);
  const auto starts = int64_or_none(start), sizes = int64_or_none(lengths);
  const auto radii = radii_of(radius, batch);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t size = value_or(sizes, b, n), first = value_or(starts, b, 0);
    TORCH_CHECK_VALUE(size >= m && size <= n, "lengths: expected m = ", m, " <= length <= N = ", n,
                      " for cloud ", b, ", got ", size);
    check_start(first, size, b);
    s.clouds.push_back({b * n, size, m, first, b * m, radii[b]});
  }
}

Tensors furthest_point_sample(const at::Tensor& xyz, int64_t m,
                              const std::optional<at::Tensor>& start,
                              const std::optional<at::Tensor>& lengths, bool return_distances,
                              const std::optional<at::Tensor>& radius) {
  check_dense(xyz, m, start, lengths, radius);
  Sampling s = {sampled_coordinates(xyz),
                false,
                {},
                outputs(xyz, {xyz.size(0), m}, return_distances, radius.has_value()),
                return_distances};
  add_dense_clouds(s, m, start, lengths, radius);
  run(s);
  return s.outputs;
}

Tensors furthest_point_sample_with_distances(const at::Tensor& distances, int64_t m,
                                             const std::optional<at::Tensor>& start,
                                             const std::optional<at::Tensor>& lengths,
                                             bool return_distances) {
  check_distance_matrix(distances, m, start, lengths);
  Sampling s = {distances.to(distance_type(distances)).contiguous(),
                true,
                {},
                outputs(distances, {distances.size(0), m}, return_distances, false),
                return_distances};
  add_dense_clouds(s, m, start, lengths, std::nullopt);
  run(s);
  return s.outputs;
}

void check_offsets(const char* name, const at::Tensor& offsets, int64_t total) {
  const int64_t* o = offsets.const_data_ptr<int64_t>();
  const int64_t last = offsets.size(0) - 1;
  TORCH_CHECK_VALUE(o[0] == 0 && o[last] == total, name, ": expected offsets from 0 to ", total,
                    ", got ", o[0], " to ", o[last]);
  for (int64_t b = 0; b < last; ++b) {
    TORCH_CHECK_VALUE(o[b] <= o[b + 1], name, ": expected offsets that never fall, got ", o[b],
                      " before ", o[b + 1], " at ", b);
  }
}

// The flag of each cloud, which the caller may raise while the kernel runs; nullptr is none. A
// flag is written as a plain int elsewhere, so it must have the layout of one.
static_assert(sizeof(std::atomic<int>) == sizeof(int32_t) && std::atomic<int>::is_always_lock_free);

const std::atomic<int>* flags_of(const at::Tensor& cancelled) {
  return reinterpret_cast<const std::atomic<int>*>(cancelled.const_data_ptr<int32_t>());
}

Tensors sample_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                      const at::Tensor& sample_offsets, const std::optional<at::Tensor>& start,
                      int64_t total_samples, bool return_distances,
                      const std::optional<at::Tensor>& radius, const std::atomic<int>* cancelled) {
  check_ragged(xyz, offsets, sample_offsets, start, radius);
  const auto rows = offsets.contiguous(), slots = sample_offsets.contiguous();
  check_offsets("offsets", rows, xyz.size(0));
  check_offsets("sample_offsets", slots, total_samples);
  const auto starts = int64_or_none(start);
  const auto radii = radii_of(radius, rows.size(0) - 1, cancelled != nullptr);
  Sampling s = {sampled_coordinates(xyz),
                false,
                {},
                outputs(xyz, {total_samples}, return_distances, radius.has_value()),
                return_distances};

  const int64_t* row = rows.const_data_ptr<int64_t>();
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  for (int64_t b = 0; b + 1 < rows.size(0); ++b) {
    const int64_t size = row[b + 1] - row[b], m = slot[b + 1] - slot[b];
    const int64_t first = value_or(starts, b, 0);
    check_samples(m, size, b);
    check_start(first, size, b);
    s.clouds.push_back(
        {row[b], size, m, first, slot[b], radii[b], cancelled ? cancelled + b : nullptr});
  }
  run(s);
  for (const auto& c : s.clouds) {
    int32_t* const index = std::get<0>(s.outputs).mutable_data_ptr<int32_t>() + c.place;
    for (int64_t i = 0; i < c.m; ++i) {
      if (index[i] >= 0) index[i] += static_cast<int32_t>(c.row);
    }
  }
  return s.outputs;
}

Tensors furthest_point_sample_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                                     const at::Tensor& sample_offsets,
                                     const std::optional<at::Tensor>& start, int64_t total_samples,
                                     int64_t /*max_points*/, int64_t /*max_samples*/,
                                     bool return_distances,
                                     const std::optional<at::Tensor>& radius) {
  return sample_ragged(xyz, offsets, sample_offsets, start, total_samples, return_distances, radius,
                       nullptr);
}

Tensors furthest_point_sample_cancellable(const at::Tensor& xyz, const at::Tensor& offsets,
                                          const at::Tensor& sample_offsets,
                                          const std::optional<at::Tensor>& start,
                                          int64_t total_samples, const at::Tensor& cancelled,
                                          bool return_distances,
                                          const std::optional<at::Tensor>& radius) {
  TORCH_CHECK_TYPE(cancelled.scalar_type() == at::kInt, "cancelled: expected int32, got ",
                   cancelled.scalar_type());
  TORCH_CHECK_VALUE(
      cancelled.dim() == 1 && cancelled.is_contiguous() && cancelled.size(0) + 1 == offsets.size(0),
      "cancelled: expected contiguous (B,) for offsets ", offsets.sizes(), ", got ",
      cancelled.sizes());
  return sample_ragged(xyz, offsets, sample_offsets, start, total_samples, return_distances, radius,
                       flags_of(cancelled));
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) {
  m.impl("furthest_point_sample", furthest_point_sample);
  m.impl("_furthest_point_sample_cancellable", furthest_point_sample_cancellable);
  m.impl("furthest_point_sample_ragged", furthest_point_sample_ragged);
  m.impl("furthest_point_sample_with_distances", furthest_point_sample_with_distances);
}

}  // namespace farpoint
