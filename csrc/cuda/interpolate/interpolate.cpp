// CUDA implementation of interpolate and its two derivatives: checks, registration.
#include "cuda/interpolate/interpolate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "checks_interpolate.h"
#include "cuda/common/torch_glue.h"
#include "cuda/gather/rows_torch.h"

// The halves are summed in float32 and rounded once. An index out of range stops the kernel with a
// device assertion.
namespace farpoint {
namespace {

cuda::InterpolateShape shape_of(const at::Tensor& features, const at::Tensor& idx) {
  return {features.size(0), features.size(1), idx.size(1), features.size(2), idx.size(2)};
}

// Rows of features too long for shared memory are turned, so that a corner's channels stand
// together.
at::Tensor weigh_vectors(const at::Tensor& features, const at::Tensor& idx,
                         const at::Tensor& weight) {
  auto out = at::empty({features.size(0), features.size(1), idx.size(1)}, features.options());
  const cuda::GatherShape shape{features.size(0), features.size(1), features.size(2),
                                idx.size(1) * idx.size(2)};
  const auto vectors = turned(features);
  check_cuda(
      "interpolate",
      cuda::gather_vectors(vectors.const_data_ptr(), idx.const_data_ptr(),
                           {weight.const_data_ptr(), idx.size(2)}, out.mutable_data_ptr(), shape,
                           row_types(features, idx), current_stream(features.device())));
  return out;
}

at::Tensor weigh(const at::Tensor& features, const at::Tensor& idx, const at::Tensor& weight) {
  const auto shape = shape_of(features, idx);
  const auto types = row_types(features, idx);
  const int device = features.device().index();
  if (idx.numel() == 0) {
    return at::zeros({shape.batch, shape.channels, shape.points}, features.options());
  }
  if (!cuda::interpolate_fits(shape, types, device)) return weigh_vectors(features, idx, weight);
  auto out = at::empty({shape.batch, shape.channels, shape.points}, features.options());
  check_cuda("interpolate",
             cuda::interpolate(features.const_data_ptr(), idx.const_data_ptr(),
                               weight.const_data_ptr(), out.mutable_data_ptr(), shape, types,
                               device, current_stream(features.device())));
  return out;
}

at::Tensor interpolate(const at::Tensor& features, const at::Tensor& idx,
                       const at::Tensor& weight) {
  check_interpolate(features, idx, weight);
  const c10::DeviceGuard guard(features.device());
  return weigh(widened(features), idx.contiguous(), widened(weight)).to(features.scalar_type());
}

at::Tensor interpolate_scatter(const at::Tensor& values, const at::Tensor& idx,
                               const at::Tensor& weight, int64_t m) {
  check_interpolate_scatter(values, idx, weight, m);
  const c10::DeviceGuard guard(values.device());
  return add_samples("interpolate_scatter", widened(values), idx.contiguous(), widened(weight), m)
      .to(values.scalar_type());
}

at::Tensor interpolate_dot(const at::Tensor& values, const at::Tensor& features,
                           const at::Tensor& idx) {
  check_interpolate_dot(values, features, idx);
  const c10::DeviceGuard guard(values.device());
  const auto v = widened(values), f = widened(features), corners = idx.contiguous();
  auto out = at::empty(idx.sizes(), v.options());
  check_cuda("interpolate_dot",
             cuda::interpolate_dot(v.const_data_ptr(), f.const_data_ptr(), corners.const_data_ptr(),
                                   out.mutable_data_ptr(), shape_of(f, idx), row_types(v, corners),
                                   v.device().index(), current_stream(v.device())));
  return out.to(values.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
