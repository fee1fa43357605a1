// CUDA implementation of gather_points, group_points and scatter_points: checks, registration.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <string_view>

#include "checks.h"
#include "cuda/common/torch_glue.h"
#include "cuda/gather/scatter.h"

// An index out of range stops the kernel with a device assertion, as torch's own gather does.
namespace farpoint {
namespace {

bool is_wide(const at::Tensor& idx) { return idx.scalar_type() == at::kLong; }

// A gather only moves bytes, so the size of an element is all that matters. `columns` is (B, J).
void gather_into(const at::Tensor& out, const at::Tensor& features, const at::Tensor& columns) {
  TORCH_CHECK_TYPE(features.element_size() <= 8,
                   "features: expected elements of at most 8 bytes, got ", features.scalar_type());
  const auto from = features.contiguous();
  const cuda::GatherShape shape{from.size(0), from.size(1), from.size(2), columns.size(1)};
  check_cuda("gather",
             cuda::gather(from.const_data_ptr(), columns.const_data_ptr(), out.mutable_data_ptr(),
                          shape, static_cast<int>(from.element_size()), is_wide(columns),
                          from.device().index(), current_stream(from.device())));
}

at::Tensor gather_points(const at::Tensor& features, const at::Tensor& idx) {
  check_gather("features", features, idx);
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

cuda::GatherShape scatter_shape(const at::Tensor& values, int64_t n) {
  return {values.size(0), values.size(1), n, values.size(2)};
}

at::Tensor zeros(const at::Tensor& values, int64_t rows, int64_t columns) {
  return at::zeros({values.size(0), rows, columns}, values.options());
}

at::Tensor add_in_order(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  const auto [sorted, order] = at::sort(idx.to(at::kLong), /*stable=*/true, /*dim=*/1);
  auto out = zeros(values, values.size(1), n);
  check_cuda("scatter_points",
             cuda::scatter_sorted(values.const_data_ptr(), order.const_data_ptr<int64_t>(),
                                  sorted.const_data_ptr<int64_t>(), out.mutable_data_ptr(),
                                  scatter_shape(values, n), values.scalar_type() == at::kDouble,
                                  current_stream(values.device())));
  return out;
}

at::Tensor add_vectors(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  const auto sums = zeros(values, n, cuda::scatter_pitch(values.size(1)));
  check_cuda("scatter_points",
             cuda::scatter_vectors(values.const_data_ptr<float>(), idx.const_data_ptr(),
                                   sums.mutable_data_ptr<float>(), scatter_shape(values, n),
                                   is_wide(idx), current_stream(values.device())));
  return sums.transpose(1, 2).narrow(1, 0, values.size(1)).contiguous();
}

at::Tensor add_in_any_order(const at::Tensor& values, const at::Tensor& idx, int64_t n,
                            cuda::ScatterMethod method) {
  if (method == cuda::ScatterMethod::kVectors) return add_vectors(values, idx, n);
  const bool rows = method == cuda::ScatterMethod::kRows;
  const auto shape = scatter_shape(values, n);
  const cuda::ScatterTypes types = {values.scalar_type() == at::kDouble, is_wide(idx)};
  void* const stream = current_stream(values.device());
  auto out = rows ? at::empty({shape.batch, shape.channels, n}, values.options())
                  : zeros(values, shape.channels, n);
  const void *from = values.const_data_ptr(), *columns = idx.const_data_ptr();
  void* const to = out.mutable_data_ptr();
  check_cuda("scatter_points", rows ? cuda::scatter_rows(from, columns, to, shape, types,
                                                         values.device().index(), stream)
                                    : cuda::scatter_add(from, columns, to, shape, types, stream));
  return out;
}

// The halves are summed in float32 and rounded once.
at::Tensor widened(const at::Tensor& values) {
  return values.to(values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).contiguous();
}

// The order of the sums is fixed when torch is asked for deterministic algorithms.
at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  check_scatter(values, idx, n);
  const c10::DeviceGuard guard(values.device());
  const auto from = widened(values), columns = idx.contiguous();
  const bool wide = from.scalar_type() == at::kDouble;
  const auto method = cuda::scatter_method(scatter_shape(from, n), wide, values.device().index());
  const auto out = at::globalContext().deterministicAlgorithms()
                       ? add_in_order(from, columns, n)
                       : add_in_any_order(from, columns, n, method);
  return out.to(values.scalar_type());
}

cuda::ScatterMethod method_of(std::string_view name) {
  if (name == "rows") return cuda::ScatterMethod::kRows;
  if (name == "vectors") return cuda::ScatterMethod::kVectors;
  TORCH_CHECK_VALUE(name == "atomic", "method: expected rows, vectors or atomic, got ", name);
  return cuda::ScatterMethod::kAtomic;
}

// One method by its name, for tests and benchmarks.
at::Tensor cuda_scatter(const at::Tensor& values, const at::Tensor& idx, int64_t n,
                        std::string_view name) {
  check_scatter(values, idx, n);
  const c10::DeviceGuard guard(values.device());
  const auto from = widened(values), columns = idx.contiguous();
  const auto method = method_of(name);
  TORCH_CHECK_VALUE(cuda::scatter_fits(method, scatter_shape(from, n),
                                       from.scalar_type() == at::kDouble, from.device().index()),
                    "method: rows of ", n, " points are not for ", name, " on this device");
  return add_in_any_order(from, columns, n, method).to(values.scalar_type());
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
}

}  // namespace farpoint
