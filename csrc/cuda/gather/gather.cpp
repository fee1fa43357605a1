// CUDA implementation of gather_points, group_points, scatter_points, and of interpolate and its
// two derivatives.
#include "cuda/gather/gather.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <optional>
#include <string_view>

#include "checks.h"
#include "cuda/common/torch_glue.h"

// An index out of range stops the kernel with a device assertion, as torch's own ops do.
namespace farpoint {
namespace {

using Method = cuda::ScatterMethod;

cuda::RowTypes row_types(const at::Tensor& values, const at::Tensor& idx) {
  return {values.element_size() == 8, idx.scalar_type() == at::kLong};
}

// (B, C, N) -> (B, N, the pitch of C); what fills up a point's last vector is anything.
at::Tensor turned(const at::Tensor& rows) {
  auto out =
      at::empty({rows.size(0), rows.size(2), cuda::vector_pitch(rows.size(1))}, rows.options());
  out.narrow(2, 0, rows.size(1)).copy_(rows.transpose(1, 2));
  return out;
}

// A gather only moves bytes, so the size of an element is all that matters. `columns` is (B, J).
void gather_into(const at::Tensor& out, const at::Tensor& features, const at::Tensor& columns) {
  TORCH_CHECK_TYPE(features.element_size() <= 8,
                   "features: expected elements of at most 8 bytes, got ", features.scalar_type());
  const auto from = features.contiguous();
  const cuda::GatherShape shape{from.size(0), from.size(1), from.size(2), columns.size(1)};
  const int element_bytes = static_cast<int>(from.element_size()), device = from.device().index();
  void* const stream = current_stream(from.device());
  const auto types = row_types(from, columns);
  if (cuda::gather_wants_vectors(shape, element_bytes, device)) {
    const auto vectors = turned(from);
    check_cuda("gather", cuda::gather_vectors(vectors.const_data_ptr(), columns.const_data_ptr(),
                                              {}, out.mutable_data_ptr(), shape, types, stream));
    return;
  }
  check_cuda("gather",
             cuda::gather(from.const_data_ptr(), columns.const_data_ptr(), out.mutable_data_ptr(),
                          shape, element_bytes, types.wide_index, device, stream));
}

at::Tensor gather_points(const at::Tensor& features, const at::Tensor& idx) {
  check_gather(features, idx);
  const c10::DeviceGuard guard(features.device());
  auto out = at::empty({features.size(0), features.size(1), idx.size(1)}, features.options());
  gather_into(out, features, idx.contiguous());
  return out;
}

at::Tensor group_points(const at::Tensor& features, const at::Tensor& idx) {
  check_group(features, idx);
  const c10::DeviceGuard guard(features.device());
  auto out =
      at::empty({features.size(0), features.size(1), idx.size(1), idx.size(2)}, features.options());
  gather_into(out, features, idx.contiguous().flatten(1));
  return out;
}

at::Tensor add_vectors(const char* op, const at::Tensor& values, const at::Tensor& idx,
                       cuda::Weights weights, const cuda::GatherShape& shape) {
  const auto sums =
      at::zeros({shape.batch, shape.points, cuda::vector_pitch(shape.channels)}, values.options());
  check_cuda(op, cuda::scatter_vectors(values.const_data_ptr(), idx.const_data_ptr(), weights,
                                       sums.mutable_data_ptr(), shape, row_types(values, idx),
                                       current_stream(values.device())));
  return sums.narrow(2, 0, shape.channels).transpose(1, 2).contiguous();
}

// (B, C, N) of which every column of `idx` (B, N, K) takes its part, `weight` (B, N, K) of it or,
// if that is undefined, all -> sums (B, C, columns). Contiguous float32 or float64. By the method
// given, else in the order of the samples when torch is asked for deterministic algorithms.
at::Tensor add_samples(const char* op, const at::Tensor& values, const at::Tensor& idx,
                       const at::Tensor& weight, int64_t columns,
                       std::optional<Method> method = {}) {
  const cuda::GatherShape shape{values.size(0), values.size(1), columns, idx.size(1) * idx.size(2)};
  const auto types = row_types(values, idx);
  const int device = values.device().index();
  void* const stream = current_stream(values.device());
  const cuda::Weights weights = {weight.defined() ? weight.const_data_ptr() : nullptr, idx.size(2)};
  if (idx.numel() == 0) return at::zeros({shape.batch, shape.channels, columns}, values.options());
  if (!method) {
    method = at::globalContext().deterministicAlgorithms()
                 ? Method::kInOrder
                 : cuda::scatter_method(shape, weights, types.wide_value, device);
  }
  TORCH_CHECK_VALUE(cuda::scatter_fits(*method, shape, weights, types.wide_value, device),
                    "method: rows of ", columns, " points do not fit on this device");
  if (*method == Method::kVectors) return add_vectors(op, values, idx, weights, shape);
  auto out = at::empty({shape.batch, shape.channels, columns}, values.options());
  const auto add = *method == Method::kRows ? cuda::scatter_rows : cuda::scatter_in_order;
  check_cuda(op, add(values.const_data_ptr(), idx.const_data_ptr(), weights, out.mutable_data_ptr(),
                     shape, types, device, stream));
  return out;
}

Method method_of(std::string_view name) {
  if (name == "rows") return Method::kRows;
  if (name == "in order") return Method::kInOrder;
  TORCH_CHECK_VALUE(name == "vectors", "method: expected rows, vectors or in order, got ", name);
  return Method::kVectors;
}

at::Tensor scatter(const at::Tensor& values, const at::Tensor& idx, int64_t n,
                   std::optional<Method> method) {
  check_scatter(values, idx, n);
  const c10::DeviceGuard guard(values.device());
  const auto columns = idx.contiguous().unsqueeze(2);
  return add_samples("scatter_points", widened(values), columns, {}, n, method)
      .to(values.scalar_type());
}

at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  return scatter(values, idx, n, {});
}

// By one method, for tests and benchmarks.
at::Tensor cuda_scatter(const at::Tensor& values, const at::Tensor& idx, int64_t n,
                        std::string_view name) {
  return scatter(values, idx, n, method_of(name));
}

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

TORCH_LIBRARY_FRAGMENT(farpoint, m) {
  m.def("_cuda_scatter(Tensor values, Tensor idx, SymInt n, str method) -> Tensor");
}

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("gather_points", gather_points);
  m.impl("group_points", group_points);
  m.impl("scatter_points", scatter_points);
  m.impl("_cuda_scatter", cuda_scatter);
  m.impl("interpolate", interpolate);
  m.impl("interpolate_scatter", interpolate_scatter);
  m.impl("interpolate_dot", interpolate_dot);
}

}  // namespace farpoint
