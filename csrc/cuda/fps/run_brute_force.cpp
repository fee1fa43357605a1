// Runs brute-force farthest point sampling on a CUDA device with scratch memory of torch.
#include <ATen/Functions.h>
#include <torch/library.h>

#include <tuple>

#include "checks_sampling.h"
#include "cuda/common/torch_glue.h"
#include "cuda/fps/brute_force.h"
#include "cuda/fps/run.h"

namespace farpoint {
namespace {

// `values` is contiguous, laid out as the kernel reads it.
void run_values(cuda::FpsBatch layout, const at::Tensor& values, const at::Tensor& distances,
                int dims) {
  const bool wide = values.scalar_type() == at::kDouble;
  layout.xyz = nullptr;
  layout.distances = nullptr;
  const cuda::BruteFpsBatch batch = {layout,
                                     values.const_data_ptr(),
                                     distances.numel() > 0 ? distances.mutable_data_ptr() : nullptr,
                                     dims,
                                     dims == 0,
                                     wide};
  const auto nearest = at::empty({layout.rows}, values.options());
  check_cuda("furthest_point_sample", cuda::fps_brute_force(batch, nearest.mutable_data_ptr(),
                                                            current_stream(values.device())));
}

}  // namespace

void run_fps_by_brute_force(const cuda::FpsBatch& layout, const at::Tensor& points,
                            const at::Tensor& distances) {
  const int64_t dims = points.size(-1);
  const auto by_dimension = points.reshape({-1, dims}).t().contiguous();
  run_values(layout, by_dimension, distances, static_cast<int>(dims));
}

namespace {

std::tuple<at::Tensor, at::Tensor> with_distances(const at::Tensor& given, int64_t m,
                                                  const std::optional<at::Tensor>& start,
                                                  const std::optional<at::Tensor>& lengths,
                                                  bool return_distances) {
  check_distance_matrix(given, m, start, lengths);
  const c10::DeviceGuard guard(given.device());
  const auto values = given.to(distance_type(given)).contiguous();
  const auto starts = int64_or_none(start), sizes = int64_or_none(lengths);
  const int64_t clouds = given.size(0), n = given.size(1);
  auto indices = at::empty({clouds, m}, given.options().dtype(at::kInt));
  auto left = return_distances ? at::empty({clouds, m}, values.options())
                               : at::empty({0}, values.options());
  cuda::FpsBatch layout = {};
  layout.lengths = pointer_or_null(sizes);
  layout.start = pointer_or_null(starts);
  layout.indices = indices.mutable_data_ptr<int32_t>();
  layout.rows = clouds * n;
  layout.samples = clouds * m;
  layout.clouds = static_cast<int>(clouds);
  layout.max_points = static_cast<int>(n);
  layout.max_samples = static_cast<int>(m);
  run_values(layout, values, left, /*dims=*/0);
  return {indices, left};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("furthest_point_sample_with_distances", with_distances);
}

}  // namespace farpoint
