// Parallel neighbor searches over the queries of a batch, on torch's threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/kernels/brute_force/wide_cloud.h"
#include "cpu/kernels/neighbors/neighbors.h"

namespace farpoint {

// Searches that one thread should do before another is worth waking.
constexpr int64_t kSearchGrain = 64;

// Calls search(cloud, first query, last query) for the queries of every cloud, in shares.
template <class Search>
void for_each_share(int64_t batch, int64_t queries, const Search& search) {
  at::parallel_for(0, batch * queries, kSearchGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t b = begin / queries, last = std::min(end, (b + 1) * queries);
      search(b, begin - b * queries, last - b * queries);
      begin = last;
    }
  });
}

// The clouds of float32 (B, n, 3), of which the first sizes[b] rows count, made ready for searches.
inline std::vector<std::unique_ptr<cpu::Neighbors>> make_searchable(
    const float* xyz, int64_t n, const std::vector<int64_t>& sizes, int64_t queries,
    cpu::Neighbors::Use use) {
  const auto batch = static_cast<int64_t>(sizes.size());
  std::vector<std::unique_ptr<cpu::Neighbors>> clouds(batch);
  const int threads = std::max<int>(1, at::get_num_threads() / std::max<int64_t>(1, batch));
  at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      clouds[b] =
          std::make_unique<cpu::Neighbors>(xyz + b * n * 3, sizes[b], queries, use, threads);
    }
  });
  return clouds;
}

// Likewise those of float64 (B, n, 3).
inline std::vector<cpu::WideCloud> make_searchable(const double* xyz, int64_t n,
                                                   const std::vector<int64_t>& sizes) {
  std::vector<cpu::WideCloud> clouds;
  for (const int64_t size : sizes) {
    clouds.emplace_back(xyz, size);
    xyz += 3 * n;
  }
  return clouds;
}

}  // namespace farpoint
