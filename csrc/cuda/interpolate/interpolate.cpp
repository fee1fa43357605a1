// CUDA implementation of interpolate and its two derivatives: checks, registration.
#include "cuda/interpolate/interpolate.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "checks_interpolate.h"
#include "cuda/common/torch_glue.h"
#include "cuda/gather/scatter.h"

// The halves are summed in float32 and rounded once. An index out of range stops the kernel with a
// device assertion.
namespace farpoint {
namespace {

at::Tensor widened(const at::Tensor& tensor) {
  return tensor.to(tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).contiguous();
}

cuda::InterpolateTypes types_of(const at::Tensor& values, const at::Tensor& idx) {
  return {values.scalar_type() == at::kDouble, idx.scalar_type() == at::kLong};
}

at::Tensor interpolate(const at::Tensor& features, const at::Tensor& idx,
                       const at::Tensor& weight) {
  check_interpolate(features, idx, weight);
  const c10::DeviceGuard guard(features.device());
  const auto f = widened(features), w = widened(weight), corners = idx.contiguous();
  const cuda::InterpolateShape shape{f.size(0), f.size(1), idx.size(1), f.size(2), idx.size(2)};
  auto out = at::empty({shape.batch, shape.channels, shape.points}, f.options());
  check_cuda("interpolate",
             cuda::interpolate(f.const_data_ptr(), corners.const_data_ptr(), w.const_data_ptr(),
                               out.mutable_data_ptr(), shape, types_of(f, corners),
                               f.device().index(), current_stream(f.device())));
  return out.to(features.scalar_type());
}

// The sums of repeated columns in the order of n and k.
at::Tensor scatter_in_order(const at::Tensor& v, const at::Tensor& idx, const at::Tensor& w,
                            int64_t m) {
  const auto products = at::mul(v.unsqueeze(3), w.unsqueeze(1)).flatten(2);
  const auto [sorted, order] = at::sort(idx.flatten(1).to(at::kLong), /*stable=*/true, /*dim=*/1);
  auto out = at::zeros({v.size(0), v.size(1), m}, v.options());
  const cuda::GatherShape shape{v.size(0), v.size(1), m, products.size(2)};
  check_cuda("interpolate_scatter",
             cuda::scatter_sorted(products.const_data_ptr(), order.const_data_ptr<int64_t>(),
                                  sorted.const_data_ptr<int64_t>(), out.mutable_data_ptr(), shape,
                                  v.scalar_type() == at::kDouble, current_stream(v.device())));
  return out;
}

at::Tensor scatter_atomically(const at::Tensor& v, const at::Tensor& idx, const at::Tensor& w,
                              int64_t m) {
  const cuda::InterpolateShape shape{v.size(0), v.size(1), v.size(2), m, idx.size(2)};
  auto out = at::empty({shape.batch, shape.channels, m}, v.options());
  check_cuda("interpolate_scatter",
             cuda::interpolate_scatter(v.const_data_ptr(), idx.const_data_ptr(), w.const_data_ptr(),
                                       out.mutable_data_ptr(), shape, types_of(v, idx),
                                       v.device().index(), current_stream(v.device())));
  return out;
}

at::Tensor interpolate_scatter(const at::Tensor& values, const at::Tensor& idx,
                               const at::Tensor& weight, int64_t m) {
  check_interpolate_scatter(values, idx, weight, m);
  const c10::DeviceGuard guard(values.device());
  const auto v = widened(values), w = widened(weight), corners = idx.contiguous();
  const bool in_order = at::globalContext().deterministicAlgorithms();
  const auto out = (in_order ? scatter_in_order : scatter_atomically)(v, corners, w, m);
  return out.to(values.scalar_type());
}

at::Tensor interpolate_dot(const at::Tensor& values, const at::Tensor& features,
                           const at::Tensor& idx) {
  check_interpolate_dot(values, features, idx);
  const c10::DeviceGuard guard(values.device());
  const auto v = widened(values), f = widened(features), corners = idx.contiguous();
  const cuda::InterpolateShape shape{v.size(0), v.size(1), v.size(2), f.size(2), idx.size(2)};
  auto out = at::empty(idx.sizes(), v.options());
  check_cuda("interpolate_dot",
             cuda::interpolate_dot(v.const_data_ptr(), f.const_data_ptr(), corners.const_data_ptr(),
                                   out.mutable_data_ptr(), shape, types_of(v, corners),
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
