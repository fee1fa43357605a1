// Runs farthest point sampling on a CUDA device with scratch memory from torch's allocator.
#include "cuda/fps/run.h"

#include <ATen/Functions.h>

#include "cuda/common/torch_glue.h"

namespace farpoint {
namespace {

// The rows of each cloud along a Morton curve, and padding after them.
at::Tensor morton_order(const cuda::FpsBatch& batch, const at::Tensor& points, void* stream) {
  const auto keys = at::empty({batch.rows}, points.options().dtype(at::kLong));
  const auto scratch = scratch_on(points, cuda::fps_morton_scratch(batch));
  check_cuda("furthest_point_sample",
             cuda::fps_morton_keys(batch, keys.mutable_data_ptr<int64_t>(),
                                   scratch.mutable_data_ptr(), points.device().index(), stream));
  return at::argsort(keys);
}

}  // namespace

void run_fps(const cuda::FpsBatch& batch, const at::Tensor& points, cuda::FpsMethod method,
             int head_points) {
  const int device = points.device().index();
  void* const stream = current_stream(points.device());
  auto plan = cuda::fps_plan(batch, method, device);
  TORCH_CHECK_VALUE(method == cuda::FpsMethod::kAuto || method == plan.method,
                    "method: this kernel cannot run clouds of ", batch.max_points,
                    " points on this device");
  if (head_points > 0) plan.head_points = head_points;
  const auto scratch = scratch_on(points, plan.scratch_bytes);
  const auto order = plan.wants_order ? morton_order(batch, points, stream) : at::Tensor();
  check_cuda("furthest_point_sample", cuda::fps(batch, plan, scratch.mutable_data_ptr(),
                                                pointer_or_null(order), device, stream));
}

}  // namespace farpoint
