// The leaves of clouds that fit in one block each, from the points, in one launch.
//
// A key and its row are one word, of which a pass drops the digit that it has sorted by. A block
// holds its words in registers while they are counted, so that one copy of them in shared memory
// is enough.
#include "cuda/common/launch.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/sort/cells.cuh"
#include "cuda/fps/sort/radix.cuh"
#include "cuda/fps/sort/spatial_sort.h"
#include "cuda/fps/tree/layout.cuh"

namespace farpoint::cuda {
namespace tree {
namespace {

// So many bits of the codes that a sample goes down to less than a hundredth more leaves.
template <class Tile_, int kPasses_, int kBlocks_>
struct BlockSort {
  using Tile = Tile_;
  static constexpr int kPasses = kPasses_, kBlocks = kBlocks_;  // of a processor
  static constexpr int kBits = kPasses * Tile::kDigitBits, kLevels = (kBits + 2) / 3;
  static constexpr int kRowBits = 32 - (kPasses - 1) * Tile::kDigitBits;
  static_assert(Tile::kKeys <= 1 << kRowBits);

  typename Tile::Counts counts;
  unsigned words[Tile::kKeys];
  Bounds bounds;
  Curve curve;
};
using SmallSort = BlockSort<Tile<128, 8, 8>, 2, 8>;
using MediumSort = BlockSort<Tile<256, 16, 8>, 3, 4>;
using LargeSort = BlockSort<Tile<1024, 16, 9>, 3, 1>;

__device__ void find_bounds(Bounds& bounds, const Cloud& cloud) {
  if (threadIdx.x < 6) (&bounds.below[0])[threadIdx.x] = 0;
  __syncthreads();
  if (warp_id() < 3) find_bulk(bounds, cloud, warp_id());
  widen_all(bounds, cloud, 0, cloud.n);
  __syncthreads();
}

template <class Sort>
__device__ void write_codes(Sort& shared, const Cloud& cloud, int padded) {
  using Cells = Grid<Sort::kLevels>;
  const Cells grid = Cells::over(shared.bounds);
  for (int row = threadIdx.x; row < padded; row += Sort::Tile::kThreads) {
    // What lies behind the last row stays there: no code is higher, and it comes last.
    const unsigned code =
        row < cloud.n ? grid.code_of(cloud.point(row), shared.curve) : Cells::kLastCode;
    shared.words[row] = code >> (3 * Sort::kLevels - Sort::kBits);
  }
}

// Sorts by the next digit of the words. After the first there is room for their rows.
template <class Sort>
__device__ void sort_pass(Sort& shared, int steps, int pass) {
  using Tile = typename Sort::Tile;
  const int shift = pass == 0 ? 0 : Sort::kRowBits + (pass - 1) * Tile::kDigitBits;
  const int first = warp_id() * steps * kWarp + lane_id();
  unsigned word[Tile::kItems];
  each_key<Tile>(steps, [&](int k) { word[k] = shared.words[first + k * kWarp]; });
  int place[Tile::kItems];
  const auto digit_of = [&](int k) {
    return static_cast<int>(word[k] >> shift) & (Tile::kDigits - 1);
  };
  find_places<Tile>(shared.counts, digit_of, steps, place);
  each_key<Tile>(steps, [&](int k) {
    const unsigned row = first + k * kWarp;
    if (pass == 0) word[k] = word[k] >> Tile::kDigitBits << Sort::kRowBits | row;
    shared.words[place[k]] = word[k];
  });
}

template <class Sort>
__device__ void put_leaves(const Sort& shared, const Cloud& cloud, const Storage& storage) {
  const int64_t first = first_leaf(cloud.first_row, blockIdx.x);
  for (int leaf = warp_id(); leaf * kLeaf < cloud.n; leaf += Sort::Tile::kWarps) {
    const int place = leaf * kLeaf + lane_id();
    const int row = shared.words[place] & ((1u << Sort::kRowBits) - 1);
    put_leaf(storage, first + leaf, cloud, place < cloud.n ? row : kNoRow);
  }
}

template <class Sort>
__global__ void __launch_bounds__(Sort::Tile::kThreads, Sort::kBlocks)
    sort_in_block(FpsBatch batch, Storage storage) {
  auto& shared = shared_as<Sort>();
  const Cloud cloud = cloud_of(batch, blockIdx.x);
  if (cloud.m == 0) return;
  if (threadIdx.x == 0) shared.curve.fill();
  find_bounds(shared.bounds, cloud);
  constexpr int kStride = kTogether * Sort::Tile::kThreads;
  const int strides = (cloud.n + kStride - 1) / kStride, steps = kTogether * strides;
  write_codes(shared, cloud, strides * kStride);
#pragma unroll 1
  for (int pass = 0; pass < Sort::kPasses; ++pass) {
    __syncthreads();
    sort_pass(shared, steps, pass);
  }
  __syncthreads();
  put_leaves(shared, cloud, storage);
}

template <class Sort>
int run(const FpsBatch& batch, const Storage& storage, void* stream) {
  const LaunchShape shape = {batch.clouds, Sort::Tile::kThreads, sizeof(Sort)};
  return launch(sort_in_block<Sort>, shape, stream, batch, storage);
}

}  // namespace

int make_leaves_in_block(const FpsBatch& batch, const Storage& storage, void* stream) {
  if (batch.max_points <= SmallSort::Tile::kKeys) return run<SmallSort>(batch, storage, stream);
  if (batch.max_points <= MediumSort::Tile::kKeys) return run<MediumSort>(batch, storage, stream);
  return run<LargeSort>(batch, storage, stream);
}

}  // namespace tree

int fps_sort_capacity(int device) {
  const size_t room = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return room >= sizeof(tree::LargeSort) ? tree::LargeSort::Tile::kKeys
                                         : tree::MediumSort::Tile::kKeys;
}

}  // namespace farpoint::cuda
