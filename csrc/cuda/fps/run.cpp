// Runs farthest point sampling on a CUDA device with scratch memory from torch's allocator.
#include "cuda/fps/run.h"

#include <ATen/Functions.h>

#include "cuda/common/torch_glue.h"

namespace farpoint {
void run_fps(const cuda::FpsBatch& batch, const at::Tensor& points, cuda::FpsMethod method,
             int warps) {
  const int device = points.device().index();
  void* const stream = current_stream(points.device());
  const auto plan = cuda::fps_plan(batch, method, device, warps);
  TORCH_CHECK_VALUE(method == cuda::FpsMethod::kAuto || method == plan.method,
                    "method: this kernel cannot run clouds of ", batch.max_points,
                    " points on this device");
  const auto scratch = scratch_on(points, plan.scratch_bytes);
  check_cuda("furthest_point_sample",
             cuda::fps(batch, plan, scratch.mutable_data_ptr(), device, stream));
}

}  // namespace farpoint
