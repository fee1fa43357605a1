// CPU implementation of the furthest_point_sample ops: checks, tasks per cloud, registration.
#include "cpu/kernels/fps/furthest_point_sample.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <tuple>
#include <vector>

#include "checks.h"
#include "cpu/kernels/stop.h"

namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

int64_t value_or(const at::Tensor& values, int64_t cloud, int64_t missing) {
  return values.defined() ? values.const_data_ptr<int64_t>()[cloud] : missing;
}

void check_start(int64_t start, int64_t points, int64_t cloud) {
  TORCH_CHECK_INDEX(start >= 0 && start < points, "start: expected 0 <= start < ", points,
                    " for cloud ", cloud, ", got ", start);
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

struct Sampling {
  at::Tensor points;  // contiguous
  Tensors outputs;
  int64_t deadline = 0;  // of FpsTask
  std::vector<cpu::FpsTask> tasks = {};

  // Adds a cloud of n rows of the points, whose m samples have a place in the outputs.
  void add(int64_t row, int64_t n, int64_t m, int64_t start, int64_t place, double radius,
           const std::atomic<int>* cancelled = nullptr) {
    auto& [indices, distances] = outputs;
    const int64_t columns = points.size(-1), bytes = points.element_size();
    const auto* values = static_cast<const char*>(points.const_data_ptr());
    auto* left = static_cast<char*>(distances.mutable_data_ptr());
    tasks.push_back({values + row * columns * bytes, n, columns, bytes == 8, m, start,
                     indices.mutable_data_ptr<int32_t>() + place,
                     distances.numel() > 0 ? left + place * bytes : nullptr, radius, cancelled,
                     deadline});
  }

  // Returns whether all clouds are finished.
  bool run() {
    return cpu::furthest_point_sample(tasks.data(), static_cast<int64_t>(tasks.size()),
                                      at::get_num_threads());
  }
};

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
    s.add(b * n, size, m, first, b * m, radii[b]);
  }
}

Tensors furthest_point_sample(const at::Tensor& xyz, int64_t m,
                              const std::optional<at::Tensor>& start,
                              const std::optional<at::Tensor>& lengths, bool return_distances,
                              const std::optional<at::Tensor>& radius) {
  check_dense(xyz, m, start, lengths, radius);
  Sampling s = {sampled_coordinates(xyz),
                outputs(xyz, {xyz.size(0), m}, return_distances, radius.has_value())};
  add_dense_clouds(s, m, start, lengths, radius);
  s.run();
  return s.outputs;
}

// `cancelled` is the flag of each cloud, which the caller may raise while the kernel runs, or
// nullptr. A flag is written as a plain int elsewhere, so it must have the layout of one.
static_assert(sizeof(std::atomic<int>) == sizeof(int32_t) && std::atomic<int>::is_always_lock_free);

Tensors sample_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                      const at::Tensor& sample_offsets, const std::optional<at::Tensor>& start,
                      int64_t total_samples, bool return_distances,
                      const std::optional<at::Tensor>& radius,
                      const std::atomic<int>* cancelled = nullptr, int64_t budget_ns = 0) {
  const int64_t deadline = budget_ns > 0 ? cpu::monotonic_ns() + budget_ns : 0;
  check_ragged(xyz, offsets, sample_offsets, start, radius);
  const auto rows = offsets.contiguous(), slots = sample_offsets.contiguous();
  check_offsets("offsets", rows, xyz.size(0));
  check_offsets("sample_offsets", slots, total_samples);
  const auto starts = int64_or_none(start);
  const auto radii = radii_of(radius, rows.size(0) - 1, cancelled != nullptr);
  Sampling s = {sampled_coordinates(xyz),
                outputs(xyz, {total_samples}, return_distances, radius.has_value()), deadline};
  const int64_t* row = rows.const_data_ptr<int64_t>();
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  for (int64_t b = 0; b + 1 < rows.size(0); ++b) {
    const int64_t size = row[b + 1] - row[b], m = slot[b + 1] - slot[b];
    const int64_t first = value_or(starts, b, 0);
    TORCH_CHECK_VALUE(size >= 1, "xyz: expected at least one point, got an empty cloud ", b);
    TORCH_CHECK_VALUE(m >= 1 && m <= size, "num_samples: expected 1 to ", size,
                      ", the points of cloud ", b, ", got ", m);
    check_start(first, size, b);
    s.add(row[b], size, m, first, slot[b], radii[b], cancelled ? cancelled + b : nullptr);
  }
  if (!s.run() && deadline > 0 && cpu::monotonic_ns() >= deadline) {
    return outputs(xyz, {0}, false, false);
  }
  auto* const indices = std::get<0>(s.outputs).mutable_data_ptr<int32_t>();
  for (int64_t b = 0; b + 1 < rows.size(0); ++b) {
    for (int64_t i = slot[b]; i < slot[b + 1]; ++i) {
      if (indices[i] >= 0) indices[i] += static_cast<int32_t>(row[b]);
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
  return sample_ragged(xyz, offsets, sample_offsets, start, total_samples, return_distances,
                       radius);
}

Tensors furthest_point_sample_cancellable(
    const at::Tensor& xyz, const at::Tensor& offsets, const at::Tensor& sample_offsets,
    const std::optional<at::Tensor>& start, int64_t total_samples, const at::Tensor& cancelled,
    bool return_distances, const std::optional<at::Tensor>& radius, int64_t budget_ns) {
  return sample_ragged(
      xyz, offsets, sample_offsets, start, total_samples, return_distances, radius,
      reinterpret_cast<const std::atomic<int>*>(cancelled.const_data_ptr<int32_t>()), budget_ns);
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) {
  m.impl("furthest_point_sample", furthest_point_sample);
  m.impl("_furthest_point_sample_cancellable", furthest_point_sample_cancellable);
  m.impl("furthest_point_sample_ragged", furthest_point_sample_ragged);
}

}  // namespace farpoint
