// k nearest neighbors and ball query in one cloud: dispatch by instruction set, rows that are not
// finite.
#include "cpu/kernels/neighbors/neighbors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernels/rows.h"

namespace farpoint::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// More than the squared distance from `query` to any point that lies within `squared` of `other`,
// by the triangle inequality. Queries in the order of a scan lie close together.
float reach_of_neighbor(const float* query, const float* other, float squared) {
  const double dx = static_cast<double>(query[0]) - other[0];
  const double dy = static_cast<double>(query[1]) - other[1];
  const double dz = static_cast<double>(query[2]) - other[2];
  const double reach = std::sqrt(dx * dx + dy * dy + dz * dz) + std::sqrt(squared);
  // Distances are rounded to float, each operation by less than a part in 10^7 or by the smallest
  // number there is.
  const double limit = reach * reach * 1.00001 + 1e-37;
  return limit < std::numeric_limits<float>::max() ? static_cast<float>(limit) : kInfinity;
}

}  // namespace

Neighbors::Neighbors(const float* xyz, int64_t n, int64_t queries, Use use, int threads)
    : kernels_(backend().search), index_(nullptr, kernels_.destroy), points_(n) {
  const bool balls = use == Use::kBalls;
  for (int64_t i = 0; i < n; ++i) finite_ += is_finite(xyz + 3 * i);
  if (finite_ == n) {
    if (n > 0) index_.reset(kernels_.build(xyz, n, queries, balls, threads));
    return;
  }
  rows_ = finite_rows(xyz, n);
  const auto finite = gathered(xyz, rows_);
  for (int64_t i = 0; i < n; ++i) {
    if (!is_finite(xyz + 3 * i)) rows_.push_back(static_cast<int32_t>(i));
  }
  if (finite_ > 0) index_.reset(kernels_.build(finite.data(), finite_, queries, balls, threads));
}

void Neighbors::nearest(const float* queries, int64_t count, int64_t k, int32_t* rows,
                        float* squared) const {
  if (k == 1 && finite_ > 0 && nearest_to_many(queries, count, rows, squared)) return;
  std::vector<uint64_t> work(k);
  const int64_t present = std::min(k, points_);
  const float* last = nullptr;  // the query before, whose results are one step behind
  for (int64_t q = 0; q < count; ++q, queries += 3, rows += k, squared += k) {
    const int64_t near = is_finite(queries) ? std::min(k, finite_) : 0;
    const float limit =
        near > 0 && last ? reach_of_neighbor(queries, last, squared[near - 1 - k]) : kInfinity;
    if (near > 0) {
      kernels_.nearest(index_.get(), queries, near, limit, work.data(), rows, squared);
    }
    last = near > 0 ? queries : nullptr;
    for (int64_t i = near; i < present; ++i) rows[i] = static_cast<int32_t>(i);
    std::fill(squared + near, squared + k, kInfinity);
    for (int64_t i = 0; i < present && !rows_.empty(); ++i) rows[i] = rows_[rows[i]];
    std::fill(rows + present, rows + k, present > 0 ? rows[0] : 0);
  }
}

bool Neighbors::nearest_to_many(const float* queries, int64_t count, int32_t* rows,
                                float* squared) const {
  if (kernels_.nearest_to_many(index_.get(), queries, count, rows, squared)) {
    for (int64_t i = 0; i < count && !rows_.empty(); ++i) rows[i] = rows_[rows[i]];
    return true;
  }
  const auto finite = finite_rows(queries, count);
  const auto some = static_cast<int64_t>(finite.size());
  if (some == count) return false;
  std::vector<int32_t> found(some);
  std::vector<float> distances(some);
  nearest(gathered(queries, finite).data(), some, 1, found.data(), distances.data());
  std::fill(rows, rows + count, rows_.empty() ? 0 : rows_[0]);
  std::fill(squared, squared + count, kInfinity);
  for (int64_t i = 0; i < some; ++i) {
    rows[finite[i]] = found[i];
    squared[finite[i]] = distances[i];
  }
  return true;
}

void Neighbors::within(const float* centers, int64_t count, float inner, float limit, int64_t k,
                       int32_t* rows, int32_t* found) const {
  const float reach = std::nextafter(limit, -kInfinity);
  for (int64_t q = 0; q < count; ++q, centers += 3, rows += k) {
    const bool searched = is_finite(centers) && finite_ > 0;
    const int64_t hits =
        searched ? kernels_.within(index_.get(), centers, inner, reach, k, rows) : 0;
    for (int64_t i = 0; i < hits && !rows_.empty(); ++i) rows[i] = rows_[rows[i]];
    std::fill(rows + hits, rows + k, hits > 0 ? rows[0] : 0);
    found[q] = static_cast<int32_t>(hits);
  }
}

}  // namespace farpoint::cpu
