// CPU implementation of interpolate and its two derivatives.
#include "cpu/kernels/interpolate.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "checks_features.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

// Products that one thread should add up before another is worth waking.
constexpr int64_t kProductsPerTask = 1 << 14;

// Calls body(a, b, indices, out), pointers of the types of the contiguous tensors, once `idx` is in
// range.
template <typename Body>
void dispatch(const at::Tensor& a, const at::Tensor& b, const at::Tensor& idx, int64_t columns,
              const at::Tensor& out, const Body& body) {
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "interpolate", [&] {
    AT_DISPATCH_INDEX_TYPES(idx.scalar_type(), "interpolate", [&] {
      check_range<index_t>(idx, columns);
      body(a.const_data_ptr<scalar_t>(), b.const_data_ptr<scalar_t>(),
           idx.const_data_ptr<index_t>(), out.mutable_data_ptr<scalar_t>());
    });
  });
}

template <typename Share>
void in_parallel(int64_t count, int64_t products, const Share& share) {
  at::parallel_for(0, count,
                   std::max<int64_t>(1, kProductsPerTask / std::max<int64_t>(1, products)), share);
}

at::Tensor interpolate(const at::Tensor& features, const at::Tensor& idx,
                       const at::Tensor& weight) {
  check_interpolate(features, idx, weight);
  const auto f = widened(features), w = widened(weight), corners = idx.contiguous();
  const cpu::InterpolateShape shape{f.size(1), idx.size(1), f.size(2), idx.size(2)};
  auto out = at::empty({f.size(0), shape.channels, shape.points}, f.options());
  dispatch(f, w, corners, shape.columns, out, [&](auto* from, auto* by, auto* at, auto* to) {
    in_parallel(
        f.size(0) * shape.channels, shape.points * shape.corners,
        [&](int64_t b, int64_t e) { cpu::interpolate_rows(from, at, by, to, shape, b, e); });
  });
  return out.to(features.scalar_type());
}

at::Tensor interpolate_scatter(const at::Tensor& values, const at::Tensor& idx,
                               const at::Tensor& weight, int64_t m) {
  check_interpolate_scatter(values, idx, weight, m);
  const auto v = widened(values), w = widened(weight), corners = idx.contiguous();
  const cpu::InterpolateShape shape{v.size(1), v.size(2), m, idx.size(2)};
  auto out = at::zeros({v.size(0), shape.channels, m}, v.options());
  dispatch(v, w, corners, m, out, [&](auto* from, auto* by, auto* at, auto* to) {
    in_parallel(v.size(0) * shape.channels, shape.points * shape.corners,
                [&](int64_t b, int64_t e) {
                  cpu::interpolate_scatter_rows(from, at, by, to, shape, b, e);
                });
  });
  return out.to(values.scalar_type());
}

at::Tensor interpolate_dot(const at::Tensor& values, const at::Tensor& features,
                           const at::Tensor& idx) {
  check_interpolate_dot(values, features, idx);
  const auto v = widened(values), f = widened(features), corners = idx.contiguous();
  const cpu::InterpolateShape shape{v.size(1), v.size(2), f.size(2), idx.size(2)};
  auto out = at::zeros(idx.sizes(), v.options());
  dispatch(v, f, corners, shape.columns, out, [&](auto* from, auto* with, auto* at, auto* to) {
    in_parallel(shape.points, shape.channels * shape.corners, [&](int64_t begin, int64_t end) {
      for (int64_t b = 0; b < v.size(0); ++b) {
        cpu::interpolate_dot_points(from, with, at, to, shape, b, begin, end);
      }
    });
  });
  return out.to(values.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) {
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
