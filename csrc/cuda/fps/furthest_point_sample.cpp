// CUDA implementation of the furthest_point_sample ops: checks, outputs, registration.
#include <ATen/Functions.h>
#include <torch/library.h>

#include <string_view>
#include <tuple>

#include "checks.h"
#include "cuda/common/torch_glue.h"
#include "cuda/fps/run.h"

// Values that live on the device (lengths, starts, offsets) are not read here: that would wait for
// the device. A kernel meeting a bad one stops with a device assertion, as torch's own gather does.
namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

Tensors outputs(const at::Tensor& xyz, at::IntArrayRef shape, bool return_distances) {
  const auto distances = xyz.options().dtype(at::kFloat);
  return {at::empty(shape, xyz.options().dtype(at::kInt)),
          return_distances ? at::empty(shape, distances) : at::empty({0}, distances)};
}

const float* radii_of(const at::Tensor& radius) {
  return radius.defined() ? radius.const_data_ptr<float>() : nullptr;
}

// Clouds (B, N, 3), all rows in use, from row 0 on.
cuda::FpsBatch dense_batch(const at::Tensor& points, int64_t m, const at::Tensor& indices,
                           const at::Tensor& distances) {
  cuda::FpsBatch batch = {};
  batch.xyz = points.const_data_ptr<float>();
  batch.indices = indices.mutable_data_ptr<int32_t>();
  batch.distances = distances.numel() > 0 ? distances.mutable_data_ptr<float>() : nullptr;
  batch.rows = points.size(0) * points.size(1);
  batch.samples = points.size(0) * m;
  batch.clouds = static_cast<int>(points.size(0));
  batch.max_points = static_cast<int>(points.size(1));
  batch.max_samples = static_cast<int>(m);
  return batch;
}

Tensors furthest_point_sample(const at::Tensor& xyz, int64_t m,
                              const std::optional<at::Tensor>& start,
                              const std::optional<at::Tensor>& lengths, bool return_distances,
                              const std::optional<at::Tensor>& radius) {
  check_clouds(xyz);
  const int64_t clouds = xyz.size(0), n = xyz.size(1);
  check_sample_count(m, n);
  check_per_cloud("start", start, clouds, xyz);
  check_per_cloud("lengths", lengths, clouds, xyz);
  check_radius(radius, clouds, xyz);
  const c10::DeviceGuard guard(xyz.device());
  const auto points = xyz.to(at::kFloat).contiguous();
  const auto starts = int64_or_none(start), sizes = int64_or_none(lengths);
  const auto radii = radius ? radius->contiguous() : at::Tensor();
  auto [indices, distances] = outputs(xyz, {clouds, m}, return_distances);
  if (clouds == 0) return {indices, distances};
  auto batch = dense_batch(points, m, indices, distances);
  batch.lengths = pointer_or_null(sizes);
  batch.start = pointer_or_null(starts);
  batch.radius = radii_of(radii);
  run_fps(batch, points, cuda::FpsMethod::kAuto);
  return {indices, distances};
}

Tensors furthest_point_sample_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                                     const at::Tensor& sample_offsets,
                                     const std::optional<at::Tensor>& start, int64_t total_samples,
                                     int64_t max_points, int64_t max_samples, bool return_distances,
                                     const std::optional<at::Tensor>& radius) {
  check_ragged(xyz, offsets, sample_offsets, start, radius);
  const c10::DeviceGuard guard(xyz.device());
  const auto points = xyz.to(at::kFloat).contiguous();
  const auto rows = offsets.contiguous(), slots = sample_offsets.contiguous();
  const auto starts = int64_or_none(start);
  const auto radii = radius ? radius->contiguous() : at::Tensor();
  auto [indices, distances] = outputs(xyz, {total_samples}, return_distances);
  if (total_samples == 0) return {indices, distances};
  cuda::FpsBatch batch = {};
  batch.xyz = points.const_data_ptr<float>();
  batch.offsets = pointer_or_null(rows);
  batch.sample_offsets = pointer_or_null(slots);
  batch.start = pointer_or_null(starts);
  batch.radius = radii_of(radii);
  batch.indices = indices.mutable_data_ptr<int32_t>();
  batch.distances = distances.numel() > 0 ? distances.mutable_data_ptr<float>() : nullptr;
  batch.rows = xyz.size(0);
  batch.samples = total_samples;
  batch.clouds = static_cast<int>(offsets.size(0) - 1);
  batch.max_points = static_cast<int>(max_points);
  batch.max_samples = static_cast<int>(max_samples);
  run_fps(batch, points, cuda::FpsMethod::kAuto);
  return {indices, distances};
}

cuda::FpsMethod method_of(std::string_view name) {
  const char* const names[] = {"auto", "grid", "block", "tree"};
  for (int i = 0; i < 4; ++i) {
    if (name == names[i]) return static_cast<cuda::FpsMethod>(i);
  }
  TORCH_CHECK_VALUE(false, "method: expected auto, grid, block or tree, got ", name);
}

// One kernel by its name, for tests and benchmarks; 0 warps leave their number to the rule.
Tensors cuda_fps(const at::Tensor& xyz, int64_t m, std::string_view method, int64_t warps) {
  check_clouds(xyz);
  check_sample_count(m, xyz.size(1));
  TORCH_CHECK_VALUE(warps >= 0 && warps <= 16 && (warps & (warps - 1)) == 0,
                    "warps: expected 0, 1, 2, 4, 8 or 16, got ", warps);
  const c10::DeviceGuard guard(xyz.device());
  const auto points = xyz.to(at::kFloat).contiguous();
  auto [indices, distances] = outputs(xyz, {xyz.size(0), m}, /*return_distances=*/true);
  run_fps(dense_batch(points, m, indices, distances), points, method_of(method),
          static_cast<int>(warps));
  return {indices, distances};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(farpoint, m) {
  m.def("_cuda_fps(Tensor xyz, int m, str method, int warps=0) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("furthest_point_sample", furthest_point_sample);
  m.impl("furthest_point_sample_ragged", furthest_point_sample_ragged);
  m.impl("_cuda_fps", cuda_fps);
}

}  // namespace farpoint
