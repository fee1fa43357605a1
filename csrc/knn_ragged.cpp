// Implementation of knn_ragged on every device: knn, cloud by cloud. The offsets are read on the
// host, so a device that holds them is waited for.
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "autograd/transforms.h"
#include "checks.h"

namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

at::Tensor host_offsets(const char* name, const at::Tensor& offsets, int64_t total) {
  const auto host = offsets.to(at::kCPU, at::kLong).contiguous();
  check_offsets(name, host, total);
  return host;
}

Tensors nearest(const at::Tensor& points, const at::Tensor& queries, int64_t k) {
  static const auto op = op_handle<Tensors(const at::Tensor&, const at::Tensor&, c10::SymInt,
                                           const std::optional<at::Tensor>&)>("farpoint::knn");
  const auto [squared, idx] = op.call(points.unsqueeze(0), queries.unsqueeze(0), k, std::nullopt);
  return {squared[0], idx[0]};
}

Tensors knn_ragged(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
                   const at::Tensor& offsets, const at::Tensor& query_offsets) {
  check_knn_ragged(xyz, queries, k, offsets, query_offsets);
  const auto rows = host_offsets("offsets", offsets, xyz.size(0));
  const auto slots = host_offsets("query_offsets", query_offsets, queries.size(0));
  const int64_t *row = rows.const_data_ptr<int64_t>(), *slot = slots.const_data_ptr<int64_t>();
  const auto squared = at::full({queries.size(0), k}, std::numeric_limits<double>::infinity(),
                                xyz.options().dtype(distance_type(xyz, queries)));
  const auto idx = at::full({queries.size(0), k}, -1, xyz.options().dtype(at::kInt));
  for (int64_t b = 0; b + 1 < rows.size(0); ++b) {
    const int64_t found = std::min(k, row[b + 1] - row[b]);
    if (found == 0 || slot[b] == slot[b + 1]) continue;
    const auto [distances, neighbors] =
        nearest(xyz.slice(0, row[b], row[b + 1]), queries.slice(0, slot[b], slot[b + 1]), found);
    squared.slice(0, slot[b], slot[b + 1]).slice(1, 0, found).copy_(distances);
    idx.slice(0, slot[b], slot[b + 1]).slice(1, 0, found).copy_(neighbors.add(row[b]));
  }
  return {squared, idx};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) { m.impl("knn_ragged", knn_ragged); }
TORCH_LIBRARY_IMPL(farpoint, CUDA, m) { m.impl("knn_ragged", knn_ragged); }

}  // namespace farpoint
