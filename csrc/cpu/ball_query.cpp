// CPU implementation of ball_query: checks, threads over queries, registration.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>

#include "checks_neighbors.h"
#include "cpu/per_cloud.h"
#include "cpu/search.h"

namespace farpoint {
namespace {

std::tuple<at::Tensor, at::Tensor> ball_query(const at::Tensor& xyz, const at::Tensor& centers,
                                              double radius, int64_t k,
                                              const std::optional<at::Tensor>& lengths,
                                              double min_radius) {
  check_ball_query(xyz, centers, radius, k, lengths, min_radius);
  const int64_t batch = xyz.size(0), n = xyz.size(1), m = centers.size(1);
  const auto sizes = sizes_of("lengths", lengths, batch, 1, n);
  const auto points = xyz.to(at::kFloat).contiguous(), from = centers.to(at::kFloat).contiguous();
  auto idx = at::empty({batch, m, k}, xyz.options().dtype(at::kInt));
  auto counts = at::empty({batch, m}, idx.options());

  const auto clouds =
      make_searchable(points.const_data_ptr<float>(), n, sizes, m, cpu::Neighbors::Use::kBalls);
  const auto* center = from.const_data_ptr<float>();
  auto* rows = idx.mutable_data_ptr<int32_t>();
  auto* found = counts.mutable_data_ptr<int32_t>();
  for_each_share(batch, m, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t q = b * m + begin;
    clouds[b]->within(center + 3 * q, end - begin, squared_radius(min_radius),
                      squared_radius(radius), k, rows + q * k, found + q);
  });
  return {idx, counts};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) { m.impl("ball_query", ball_query); }

}  // namespace farpoint
