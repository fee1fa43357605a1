// CUDA implementation of gather_points and group_points: checks, registration.
#include <torch/library.h>

#include "checks.h"
#include "cuda/common/torch_glue.h"
#include "cuda/gather/gather.h"
#include "cuda/gather/rows_torch.h"

// An index out of range stops the kernel with a device assertion, as torch's own gather does.
namespace farpoint {
namespace {

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

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CUDA, m) {
  m.impl("gather_points", gather_points);
  m.impl("group_points", group_points);
}

}  // namespace farpoint
