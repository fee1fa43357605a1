// CUDA implementation of the furthest_point_sample ops: checks, outputs, registration.
#include <ATen/Functions.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "checks.h"
#include "cuda/common/torch_glue.h"
#include "cuda/fps/fps.h"

// Values that live on the device (lengths, starts, offsets) are not read here: that would wait for
// the device. A kernel meeting a bad one stops with a device assertion, as torch's own gather does.
namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

Tensors outputs(const at::Tensor& xyz, at::IntArrayRef shape, bool return_distances) {
  const auto distances = xyz.options().dtype(distance_type(xyz));
  return {at::empty(shape, xyz.options().dtype(at::kInt)),
          return_distances ? at::empty(shape, distances) : at::empty({0}, distances)};
}

// Clouds (B, N, ...), all rows in use, from row 0 on.
cuda::FpsBatch dense_batch(const at::Tensor& points, int64_t m) {
  cuda::FpsBatch batch = {};
  batch.rows = points.size(0) * points.size(1);
  batch.samples = points.size(0) * m;
  batch.clouds = static_cast<int>(points.size(0));
  batch.max_points = static_cast<int>(points.size(1));
  batch.max_samples = static_cast<int>(m);
  return batch;
}

void run_brute(cuda::FpsBatch layout, const at::Tensor& points, const at::Tensor& distances,
               const at::Tensor& radii) {
  const int64_t dims = points.size(-1);
  const auto values = points.reshape({-1, dims}).t().contiguous();
  const cuda::BruteFpsBatch batch = {layout,
                                     values.const_data_ptr(),
                                     radii.defined() ? radii.const_data_ptr() : nullptr,
                                     distances.numel() > 0 ? distances.mutable_data_ptr() : nullptr,
                                     static_cast<int>(dims),
                                     values.scalar_type() == at::kDouble};
  const auto nearest = at::empty({layout.rows}, values.options());
  check_cuda("furthest_point_sample", cuda::fps_brute_force(batch, nearest.mutable_data_ptr(),
                                                            current_stream(values.device())));
}

// A kernel, and none, the warps or every field of `TreeShape` for its tree.
struct Choice {
  cuda::FpsMethod method = cuda::FpsMethod::kAuto;
  at::IntArrayRef tree;
};

cuda::FpsPlan plan_of(const cuda::FpsBatch& batch, const Choice& choice, int device) {
  std::array<int, 5> tree = {};
  std::copy(choice.tree.begin(), choice.tree.end(), tree.begin());
  const auto [warps, levels, in_shared, sorts_in_block, partitions] = tree;
  if (choice.tree.size() < 5) return cuda::fps_plan(batch, choice.method, device, warps);
  const cuda::TreeShape shape = {warps, levels, in_shared != 0, sorts_in_block != 0, partitions};
  return cuda::fps_plan_tree(batch, shape, device);
}

void run_spatial(cuda::FpsBatch batch, const at::Tensor& points, const at::Tensor& distances,
                 const at::Tensor& radii, const Choice& choice) {
  batch.xyz = points.const_data_ptr<float>();
  batch.radius = radii.defined() ? radii.const_data_ptr<float>() : nullptr;
  batch.distances = distances.numel() > 0 ? distances.mutable_data_ptr<float>() : nullptr;
  const int device = points.device().index();
  const auto plan = plan_of(batch, choice, device);
  TORCH_CHECK_VALUE(choice.method == cuda::FpsMethod::kAuto || choice.method == plan.method,
                    "method: this kernel cannot run clouds of ", batch.max_points,
                    " points on this device");
  const auto scratch = scratch_on(points, plan.scratch_bytes);
  check_cuda("furthest_point_sample", cuda::fps(batch, plan, scratch.mutable_data_ptr(), device,
                                                current_stream(points.device())));
}

// Samples of `shape` of a batch that lacks indices and radii.
Tensors sample(cuda::FpsBatch batch, const at::Tensor& points, at::IntArrayRef shape,
               bool return_distances, const std::optional<at::Tensor>& radius,
               const Choice& choice = {}) {
  const auto radii = radius ? radius->contiguous() : at::Tensor();
  auto [indices, distances] = outputs(points, shape, return_distances);
  batch.indices = indices.mutable_data_ptr<int32_t>();
  if (indices.numel() == 0) return {indices, distances};
  if (is_spatial(points)) {
    run_spatial(batch, points, distances, radii, choice);
  } else {
    run_brute(batch, points, distances, radii);
  }
  return {indices, distances};
}

Tensors sample_dense(const at::Tensor& xyz, int64_t m, const std::optional<at::Tensor>& start,
                     const std::optional<at::Tensor>& lengths, bool return_distances,
                     const std::optional<at::Tensor>& radius, const Choice& choice) {
  check_dense(xyz, m, start, lengths, radius);
  const c10::DeviceGuard guard(xyz.device());
  const auto points = sampled_coordinates(xyz);
  const auto starts = int64_or_none(start), sizes = int64_or_none(lengths);
  auto batch = dense_batch(points, m);
  batch.lengths = pointer_or_null(sizes);
  batch.start = pointer_or_null(starts);
  return sample(batch, points, {xyz.size(0), m}, return_distances, radius, choice);
}

Tensors furthest_point_sample(const at::Tensor& xyz, int64_t m,
                              const std::optional<at::Tensor>& start,
                              const std::optional<at::Tensor>& lengths, bool return_distances,
                              const std::optional<at::Tensor>& radius) {
  return sample_dense(xyz, m, start, lengths, return_distances, radius, {});
}

Tensors furthest_point_sample_ragged(const at::Tensor& xyz, const at::Tensor& offsets,
                                     const at::Tensor& sample_offsets,
                                     const std::optional<at::Tensor>& start, int64_t total_samples,
                                     int64_t max_points, int64_t max_samples, bool return_distances,
                                     const std::optional<at::Tensor>& radius) {
  check_ragged(xyz, offsets, sample_offsets, start, radius);
  const c10::DeviceGuard guard(xyz.device());
  const auto points = sampled_coordinates(xyz);
  const auto rows = offsets.contiguous(), slots = sample_offsets.contiguous();
  const auto starts = int64_or_none(start);
  cuda::FpsBatch batch = {};
  batch.offsets = pointer_or_null(rows);
  batch.sample_offsets = pointer_or_null(slots);
  batch.start = pointer_or_null(starts);
  batch.rows = xyz.size(0);
  batch.samples = total_samples;
  batch.clouds = static_cast<int>(offsets.size(0) - 1);
  batch.max_points = static_cast<int>(max_points);
  batch.max_samples = static_cast<int>(max_samples);
  return sample(batch, points, {total_samples}, return_distances, radius);
}

cuda::FpsMethod method_of(std::string_view name) {
  const char* const names[] = {"auto", "grid", "block", "tree", "partitioned"};
  for (int i = 0; i < 5; ++i) {
    if (name == names[i]) return static_cast<cuda::FpsMethod>(i);
  }
  TORCH_CHECK_VALUE(false, "method: expected auto, grid, block, tree or partitioned, got ", name);
}

// One kernel by its name, for tests and benchmarks.
Tensors cuda_fps(const at::Tensor& xyz, int64_t m, std::string_view method, at::IntArrayRef tree,
                 const std::optional<at::Tensor>& start, const std::optional<at::Tensor>& lengths,
                 bool return_distances, const std::optional<at::Tensor>& radius) {
  TORCH_CHECK_VALUE(is_spatial(xyz), "xyz: expected float32 coordinates in 3 dimensions");
  TORCH_CHECK_VALUE(tree.size() <= 1 || tree.size() == 5,
                    "tree: expected the number of warps or five numbers, got ", tree.size());
  return sample_dense(xyz, m, start, lengths, return_distances, radius, {method_of(method), tree});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(farpoint, m) {
  m.def(
      "_cuda_fps(Tensor xyz, int m, str method, int[] tree=[], Tensor? start=None, "
      "Tensor? lengths=None, bool return_distances=True, Tensor? radius=None) "
      "-> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("furthest_point_sample", furthest_point_sample);
  m.impl("furthest_point_sample_ragged", furthest_point_sample_ragged);
  m.impl("_cuda_fps", cuda_fps);
}

}  // namespace farpoint
