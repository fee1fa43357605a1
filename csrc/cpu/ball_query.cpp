// CPU implementation of ball_query: checks, threads over queries, registration.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>

#include "checks_neighbors.h"
#include "cpu/search.h"
#include "cpu/tensors.h"

namespace farpoint {
namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor>;

// Contiguous points (B, N, 3) and centers (B, M, 3) of one type, and the size of each cloud.
struct Balls {
  at::Tensor points, centers;
  std::vector<int64_t> sizes;
  double radius, min_radius;
  int64_t k;
};

void find_narrow(const Balls& balls, int32_t* rows, int32_t* found) {
  const int64_t m = balls.centers.size(1), k = balls.k;
  const auto clouds = make_searchable(balls.points.const_data_ptr<float>(), balls.points.size(1),
                                      balls.sizes, m, cpu::Neighbors::Use::kBalls);
  const auto* center = balls.centers.const_data_ptr<float>();
  for_each_share(balls.points.size(0), m, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t q = b * m + begin;
    clouds[b]->within(center + 3 * q, end - begin, squared_radius(balls.min_radius),
                      squared_radius(balls.radius), k, rows + q * k, found + q);
  });
}

void find_wide(const Balls& balls, int32_t* rows, int32_t* found) {
  const int64_t m = balls.centers.size(1), k = balls.k;
  const auto clouds =
      make_searchable(balls.points.const_data_ptr<double>(), balls.points.size(1), balls.sizes);
  const auto* center = balls.centers.const_data_ptr<double>();
  for_each_share(balls.points.size(0), m, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t q = b * m + begin;
    clouds[b].within(center + 3 * q, end - begin, squared_radius<double>(balls.min_radius),
                     squared_radius<double>(balls.radius), k, rows + q * k, found + q);
  });
}

Tensors ball_query(const at::Tensor& xyz, const at::Tensor& centers, double radius, int64_t k,
                   const std::optional<at::Tensor>& lengths, double min_radius) {
  check_ball_query(xyz, centers, radius, k, lengths, min_radius);
  const int64_t batch = xyz.size(0), m = centers.size(1);
  const auto type = distance_type(xyz);
  const Balls balls = {xyz.to(type).contiguous(),
                       centers.to(type).contiguous(),
                       sizes_of("lengths", lengths, batch, 1, xyz.size(1)),
                       radius,
                       min_radius,
                       k};
  auto idx = at::empty({batch, m, k}, xyz.options().dtype(at::kInt));
  auto counts = at::empty({batch, m}, idx.options());
  const auto find = type == at::kDouble ? find_wide : find_narrow;
  find(balls, idx.mutable_data_ptr<int32_t>(), counts.mutable_data_ptr<int32_t>());
  return {idx, counts};
}

}  // namespace

TORCH_LIBRARY_IMPL(farpoint, CPU, m) { m.impl("ball_query", ball_query); }

}  // namespace farpoint
