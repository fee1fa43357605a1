// CPU implementation of knn: checks, threads over queries, registration.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "checks_neighbors.h"
#include "cpu/kernels/neighbors/neighbors_double.h"
#include "cpu/search.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

void search_float(const at::Tensor& xyz, const at::Tensor& queries,
                  const std::vector<int64_t>& sizes, int64_t k, int32_t* rows, float* squared) {
  const int64_t m = queries.size(1);
  const auto* from = queries.const_data_ptr<float>();
  const auto clouds = make_searchable(xyz.const_data_ptr<float>(), xyz.size(1), sizes, m,
                                      cpu::Neighbors::Use::kNearest);
  for_each_share(xyz.size(0), m, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t q = b * m + begin;
    clouds[b]->nearest(from + 3 * q, end - begin, k, rows + q * k, squared + q * k);
  });
}

void search_double(const at::Tensor& xyz, const at::Tensor& queries,
                   const std::vector<int64_t>& sizes, int64_t k, int32_t* rows, double* squared) {
  const int64_t n = xyz.size(1), m = queries.size(1);
  const auto* points = xyz.const_data_ptr<double>();
  const auto* from = queries.const_data_ptr<double>();
  for_each_share(xyz.size(0), m, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t q = b * m + begin;
    cpu::nearest(points + b * n * 3, sizes[b], from + 3 * q, end - begin, k, rows + q * k,
                 squared + q * k);
  });
}

Tensors knn(const at::Tensor& xyz, const at::Tensor& queries, int64_t k,
            const std::optional<at::Tensor>& lengths) {
  check_knn(xyz, queries, k, lengths);
  const auto sizes = sizes_of("lengths", lengths, xyz.size(0), 1, xyz.size(1));
  const auto type = xyz.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto points = xyz.to(type).contiguous(), from = queries.to(type).contiguous();
  const std::vector<int64_t> shape = {xyz.size(0), queries.size(1), k};
  auto idx = at::empty(shape, xyz.options().dtype(at::kInt));
  auto squared = at::empty(shape, points.options());
  auto* rows = idx.mutable_data_ptr<int32_t>();
  if (type == at::kDouble) {
    search_double(points, from, sizes, k, rows, squared.mutable_data_ptr<double>());
  } else {
    search_float(points, from, sizes, k, rows, squared.mutable_data_ptr<float>());
  }
  return {squared, idx};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) { m.impl("knn", knn); }

}  // namespace farpoint
