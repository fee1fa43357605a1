// CPU implementation of gather_points, group_points and scatter_points.
#include "cpu/kernels/gather_points.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "checks_features.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

// Elements that one thread should move before another is worth waking, which may have to wait for a
// core. Two threads have half as many each at first, as many as torch gives them.
constexpr int64_t kSamplesPerTask = 1 << 16;

template <typename Rows>
void parallel_rows(int64_t rows, int64_t samples, const Rows& body) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kSamplesPerTask / std::max<int64_t>(1, samples)),
                   body);
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
    parallel_rows(features.size(0) * shape.channels, shape.samples,
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
  AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "scatter_points", [&] {
    const auto* rows = from.const_data_ptr<scalar_t>();
    auto* to = out.mutable_data_ptr<scalar_t>();
    AT_DISPATCH_INDEX_TYPES(columns.scalar_type(), "scatter_points", [&] {
      check_range<index_t>(columns, n);
      const auto* target = columns.const_data_ptr<index_t>();
      // Sixteen zeros are written in the time of one sum.
      parallel_rows(
          values.size(0) * values.size(1), shape.samples + n / 16,
          [&](int64_t b, int64_t e) { cpu::scatter_rows(rows, target, to, shape, b, e); });
    });
  });
  return out.to(values.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) {
  m.impl("gather_points", gather_points);
  m.impl("scatter_points", scatter_points);
  m.impl("group_points", group_points);
}

}  // namespace farpoint
