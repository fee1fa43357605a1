#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <torch/library.h>

#include "checks.h"
#include "cuda/gather.h"
#include "cuda/torch_glue.h"

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

int add_in_order(const at::Tensor& values, const at::Tensor& idx, const at::Tensor& out,
                 const cuda::GatherShape& shape, void* stream) {
  const auto [sorted, order] = at::sort(idx.to(at::kLong), /*stable=*/true, /*dim=*/1);
  return cuda::scatter_sorted(values.const_data_ptr(), order.const_data_ptr<int64_t>(),
                              sorted.const_data_ptr<int64_t>(), out.mutable_data_ptr(), shape,
                              values.scalar_type() == at::kDouble, stream);
}

// The halves are summed in float32 and rounded once. The order of the sums is fixed when torch is
// asked for deterministic algorithms.
at::Tensor scatter_points(const at::Tensor& values, const at::Tensor& idx, int64_t n) {
  check_scatter(values, idx, n);
  const c10::DeviceGuard guard(values.device());
  const bool wide = values.scalar_type() == at::kDouble;
  const auto from = values.to(wide ? at::kDouble : at::kFloat).contiguous();
  const auto columns = idx.contiguous();
  auto out = at::zeros({values.size(0), values.size(1), n}, from.options());
  const cuda::GatherShape shape{values.size(0), values.size(1), n, values.size(2)};
  void* const stream = current_stream(values.device());
  const int code =
      at::globalContext().deterministicAlgorithms()
          ? add_in_order(from, columns, out, shape, stream)
          : cuda::scatter_add(from.const_data_ptr(), columns.const_data_ptr(),
                              out.mutable_data_ptr(), shape, wide, is_wide(columns), stream);
  check_cuda("scatter_points", code);
  return out.to(values.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("gather_points", gather_points);
  m.impl("group_points", group_points);
  m.impl("scatter_points", scatter_points);
}

}  // namespace farpoint
