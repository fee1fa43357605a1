// Autograd keys of ops without a gradient: nothing is recorded, nothing is kept, and no result has
// a tangent.
//
// Sampling is among them. Which points are sampled is constant nearly everywhere, and the distances
// that chose them are a stop-gradient as they are.

#include <torch/library.h>

#include "autograd/transforms.h"

namespace farpoint {
namespace {

void call_without_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  below_autograd([&] { op.callBoxed(stack); });
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, Autograd, m) {
  for (const char* name : {"furthest_point_sample", "furthest_point_sample_ragged", "ball_query",
                           "nearest_sample", "count_points"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&call_without_gradient>());
  }
}

}  // namespace farpoint
