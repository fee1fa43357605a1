// C interface of the kernels that make the leaves of a sampling tree, without the rest of it.
#include <vector>

#include "cuda/fps/sort/spatial_sort.h"
#include "cuda/fps/tree/layout.cuh"

using namespace farpoint::cuda;

extern "C" {

// The rows of each leaf, made by one block a cloud or by several.
int model_leaves(const FpsBatch* batch, int in_block, int32_t* rows, unsigned seed) {
  model::reset();
  model::seed(seed);
  const int64_t leaves = batch->rows / tree::kLeaf + batch->clouds;
  std::vector<tree::Leaf> points(leaves);
  std::vector<tree::Box> boxes(leaves);
  const tree::Storage storage = {points.data(), rows, boxes.data(), {}};
  std::vector<int> order(batch->rows), counts(tree::sort_counts_bytes(*batch, 0) / sizeof(int));
  std::vector<unsigned char> bounds(tree::sort_bounds_bytes(*batch));
  auto* const items = reinterpret_cast<tree::Item*>(points.data());
  const tree::SortStorage sort = {order.data(),
                                  {items, items + batch->rows},
                                  reinterpret_cast<tree::Bounds*>(bounds.data()),
                                  counts.data()};
  return in_block ? tree::make_leaves_in_block(*batch, storage, nullptr)
                  : tree::make_leaves_by_pieces(*batch, sort, storage, 0, nullptr);
}

}  // extern "C"
