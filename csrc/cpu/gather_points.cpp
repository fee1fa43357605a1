// CPU implementation of gather_points, group_points, scatter_points, and of interpolate and its two
// derivatives.
#include "cpu/kernels/gather_points.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "checks.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

// Elements that one thread should move before another is worth waking, which may have to wait for a
// core. Two threads have half as many each at first, as many as torch gives them.
constexpr int64_t kSamplesPerTask = 1 << 16;
// Products, likewise.
constexpr int64_t kProductsPerTask = 1 << 14;

// Shares `count` pieces of so much work.
template <typename Share>
void parallel(int64_t per_task, int64_t count, int64_t work, const Share& share) {
  at::parallel_for(0, count, std::max<int64_t>(1, per_task / std::max<int64_t>(1, work)), share);
}

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

template <typename Value>
void gather_as(const at::Tensor& features, const at::Tensor& idx, const at::Tensor& out) {
  const auto samples = c10::multiply_integers(idx.sizes().slice(1));
  const cpu::GatherShape shape{features.size(1), features.size(2), samples};
  const auto* from = static_cast<const Value*>(features.const_data_ptr());
  auto* to = static_cast<Value*>(out.mutable_data_ptr());
  AT_DISPATCH_INDEX_TYPES(idx.scalar_type(), "gather_points", [&] {
    check_range<index_t>(idx, shape.points);
    const auto* columns = idx.const_data_ptr<index_t>();
    parallel(kSamplesPerTask, features.size(0) * shape.channels, shape.samples,
             [&](int64_t b, int64_t e) { cpu::gather_rows(from, columns, to, shape, b, e); });
  });
}

// A gather only moves bytes, so the size of an element is all that matters.
void gather_into(const at::Tensor& out, const at::Tensor& features, const at::Tensor& idx) {
  const auto from = features.contiguous(), columns = idx.contiguous();
  switch (features.element_size()) {
    case 1:
      gather_as<uint8_t>(from, columns, out);
      break;
    case 2:
      gather_as<uint16_t>(from, columns, out);
      break;
    case 4:
      gather_as<uint32_t>(from, columns, out);
      break;
    case 8:
      gather_as<uint64_t>(from, columns, out);
      break;
    default:
      TORCH_CHECK_TYPE(false, "features: expected elements of at most 8 bytes, got ",
                       features.scalar_type());
  }
}

at::Tensor gather_points(const at::Tensor& features, const at::Tensor& idx) {
  check_gather(features, idx);
  auto out = empty_output({features.size(0), features.size(1), idx.size(1)}, features.options());
  gather_into(out, features, idx);
  return out;
}

at::Tensor group_points(const at::Tensor& features, const at::Tensor& idx) {
  check_group(features, idx);
  auto out = empty_output({features.size(0), features.size(1), idx.size(1), idx.size(2)},
                          features.options());
  gather_into(out, features, idx);
  return out;
}

at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  check_scatter(values, idx, n);
  const auto from = widened(values), columns = idx.contiguous();
  auto out = empty_output({values.size(0), values.size(1), n}, from.options());
  const cpu::GatherShape shape{values.size(1), n, idx.size(1)};
  dispatch(from, from, columns, n, out, [&](auto* rows, auto*, auto* target, auto* to) {
    // Sixteen zeros are written in the time of one sum.
    parallel(kSamplesPerTask, values.size(0) * values.size(1), shape.samples + n / 16,
             [&](int64_t b, int64_t e) { cpu::scatter_rows(rows, target, to, shape, b, e); });
  });
  return out.to(values.scalar_type());
}

at::Tensor interpolate(const at::Tensor& features, const at::Tensor& idx,
                       const at::Tensor& weight) {
  check_interpolate(features, idx, weight);
  const auto f = widened(features), w = widened(weight), corners = idx.contiguous();
  const cpu::InterpolateShape shape{f.size(1), idx.size(1), f.size(2), idx.size(2)};
  auto out = at::empty({f.size(0), shape.channels, shape.points}, f.options());
  dispatch(f, w, corners, shape.columns, out, [&](auto* from, auto* by, auto* at, auto* to) {
    parallel(kProductsPerTask, f.size(0) * shape.channels, shape.points * shape.corners,
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
    parallel(kProductsPerTask, v.size(0) * shape.channels, shape.points * shape.corners,
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
    parallel(kProductsPerTask, shape.points, shape.channels * shape.corners,
             [&](int64_t begin, int64_t end) {
               for (int64_t b = 0; b < v.size(0); ++b) {
                 cpu::interpolate_dot_points(from, with, at, to, shape, b, begin, end);
               }
             });
  });
  return out.to(values.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) {
  m.impl("gather_points", gather_points);
  m.impl("scatter_points", scatter_points);
  m.impl("group_points", group_points);
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
