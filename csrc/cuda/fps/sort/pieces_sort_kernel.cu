// The rows of clouds in spatial order, each cloud by several blocks, and the leaves of them.
//
// Three passes over the code: a block counts the digits of its piece of a cloud, and then knows
// from the counts of all pieces where its keys go. Keys move by tiles sorted in shared memory, so
// that those of one digit are written together.
#include <algorithm>
#include <utility>

#include "cuda/common/launch.cuh"
#include "cuda/fps/cloud.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/sort/cells.cuh"
#include "cuda/fps/sort/radix.cuh"
#include "cuda/fps/sort/spatial_sort.h"
#include "cuda/fps/tree/layout.cuh"

namespace farpoint::cuda::tree {

// The block's piece of a cloud that `pieces` blocks share.
struct Piece {
  Cloud cloud;
  int b, part;
  int begin, end;
};

__device__ inline Piece piece_of(const FpsBatch& batch, int pieces) {
  const int b = blockIdx.x / pieces, part = blockIdx.x % pieces;
  const Cloud cloud = cloud_of(batch, b);
  const int size = cloud.n / pieces + 1;
  const auto bound = [&](int p) {
    return static_cast<int>(min(int64_t{p} * size, int64_t{cloud.n}));
  };
  return {cloud, b, part, bound(part), bound(part + 1)};
}

namespace {

using PieceTile = Tile<512, 8, 10>;
constexpr int kThreads = PieceTile::kThreads, kDigits = PieceTile::kDigits;
using Cells = Grid<10>;
constexpr int kPasses = 3;

__device__ int digit_of(unsigned code, int pass) {
  return static_cast<int>(code >> pass * PieceTile::kDigitBits) & (kDigits - 1);
}
__device__ unsigned code_of(Item item) { return static_cast<unsigned>(item >> 32); }
__device__ Item item_of(unsigned code, int row) { return Item{code} << 32 | Item(row); }

__global__ void __launch_bounds__(kThreads)
    find_bounds(FpsBatch batch, Bounds* bounds, int pieces) {
  const Piece piece = piece_of(batch, pieces);
  if (piece.part == 0 && warp_id() < 3) find_bulk(bounds[piece.b], piece.cloud, warp_id());
  widen_all(bounds[piece.b], piece.cloud, piece.begin, piece.end);
}

struct Counts {
  int of_digit[kDigits];
  Curve curve;
};

// Counts the digits of a piece, of which digit_at(row) gives one.
template <typename DigitAt>
__device__ void count_piece(int* counts_of_pieces, const Piece& piece, int pieces,
                            DigitAt digit_at) {
  auto& counts = shared_as<Counts>().of_digit;
  for (int d = threadIdx.x; d < kDigits; d += kThreads) counts[d] = 0;
  __syncthreads();
#pragma unroll 4
  for (int i = piece.begin + static_cast<int>(threadIdx.x); i < piece.end; i += kThreads) {
    atomicAdd(&counts[digit_at(i)], 1);
  }
  __syncthreads();
  int* const to = counts_of_pieces + (int64_t{piece.b} * pieces + piece.part) * kDigits;
  for (int d = threadIdx.x; d < kDigits; d += kThreads) to[d] = counts[d];
}

__global__ void __launch_bounds__(kThreads)
    write_codes(FpsBatch batch, const Bounds* bounds, SortStorage storage, int pieces) {
  const Piece piece = piece_of(batch, pieces);
  const Cells grid = Cells::over(bounds[piece.b]);
  Curve& curve = shared_as<Counts>().curve;
  if (threadIdx.x == 0) curve.fill();
  unsigned* const codes = storage.codes() + piece.cloud.first_row;
  count_piece(storage.counts, piece, pieces, [&](int row) {
    const unsigned code = grid.code_of(piece.cloud.point(row), curve);
    codes[row] = code;
    return digit_of(code, 0);
  });
}

__global__ void __launch_bounds__(kThreads)
    count_pieces(FpsBatch batch, const Item* from, int* counts_of_pieces, int pieces, int pass) {
  const Piece piece = piece_of(batch, pieces);
  const Item* const own = from + piece.cloud.first_row;
  count_piece(counts_of_pieces, piece, pieces,
              [&](int i) { return digit_of(code_of(own[i]), pass); });
}

struct Move {
  typename PieceTile::Counts counts;
  Item items[PieceTile::kKeys];
  int to[kDigits];  // where the keys of a digit go, less their place in the tile
};

// Where the next keys of the thread's two digits go.
struct Next {
  int of[2];
};

__device__ Next first_places(Move& shared, const Piece& piece, const int* counts_of_pieces,
                             int pieces) {
  int before[2] = {}, total[2] = {};
  const int* const all = counts_of_pieces + int64_t{piece.b} * pieces * kDigits + 2 * threadIdx.x;
#pragma unroll 4
  for (int p = 0; p < pieces; ++p) {
    for (int d = 0; d < 2; ++d) {
      const int count = all[p * kDigits + d];
      before[d] += p < piece.part ? count : 0;
      total[d] += count;
    }
  }
  const int first = sum_before(shared.counts.of_scan, total[0] + total[1]);
  return {{first + before[0], first + total[0] + before[1]}};
}

// After find_places: from the places of a tile to those of the cloud.
__device__ void advance(Move& shared, Next& next) {
  const typename PieceTile::Section& starts = shared.counts.of_warp[0];
  for (int d = 0; d < 2; ++d) {
    const int digit = 2 * threadIdx.x + d, start = starts.of_digit[digit];
    const int end = digit + 1 < kDigits ? starts.of_digit[digit + 1] : PieceTile::kKeys;
    shared.to[digit] = next.of[d] - start;
    next.of[d] += end - start;
  }
}

// Moves the keys of a piece to where a digit sends them; the last pass only the rows.
__global__ void __launch_bounds__(kThreads)
    move_pieces(FpsBatch batch, SortStorage storage, const Item* from, Item* to, int pieces,
                int pass) {
  static_assert(kDigits == 2 * kThreads);
  auto& shared = shared_as<Move>();
  const Piece piece = piece_of(batch, pieces);
  const int64_t first_row = piece.cloud.first_row;
  Next next = first_places(shared, piece, storage.counts, pieces);
  for (int tile = piece.begin; tile < piece.end; tile += PieceTile::kKeys) {
    const int first = tile + warp_id() * PieceTile::kItems * kWarp + lane_id();
    Item item[PieceTile::kItems];
#pragma unroll
    for (int k = 0; k < PieceTile::kItems; ++k) {
      const int i = first + k * kWarp;
      item[k] = i >= piece.end ? ~Item{0}
                : pass == 0    ? item_of(storage.codes()[first_row + i], i)
                               : from[first_row + i];
    }
    int place[PieceTile::kItems];
    find_places<PieceTile>(
        shared.counts, [&](int k) { return digit_of(code_of(item[k]), pass); }, PieceTile::kItems,
        place);
    advance(shared, next);
#pragma unroll
    for (int k = 0; k < PieceTile::kItems; ++k) shared.items[place[k]] = item[k];
    __syncthreads();
    const int count = min(piece.end - tile, PieceTile::kKeys);
#pragma unroll 4
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const Item moved = shared.items[i];
      const int64_t place_of_cloud = first_row + shared.to[digit_of(code_of(moved), pass)] + i;
      if (pass + 1 < kPasses) {
        to[place_of_cloud] = moved;
      } else {
        storage.order[place_of_cloud] = static_cast<int>(moved);
      }
    }
  }
}

// By as many warps as there is room for: each of them waits for points that lie anywhere in its
// cloud.
constexpr int kLeafWarps = 8, kLeavesOfWarp = 4;

__global__ void __launch_bounds__(kLeafWarps* kWarp)
    make_leaves(FpsBatch batch, const int* order, Storage storage, int blocks) {
  const int b = blockIdx.x / blocks;
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  const int64_t first_of_cloud = first_leaf(cloud.first_row, b);
  const int first = (blockIdx.x % blocks * kLeafWarps + warp_id()) * kLeavesOfWarp;
  for (int leaf = first; leaf < first + kLeavesOfWarp && leaf * kLeaf < cloud.n; ++leaf) {
    const int at = leaf * kLeaf + lane_id();
    const int row = at < cloud.n ? order[cloud.first_row + at] : kNoRow;
    put_leaf(storage, first_of_cloud + leaf, cloud, row);
  }
}

}  // namespace

// Enough blocks to fill the device twice, and a piece that is worth the counting.
int sort_pieces(const FpsBatch& batch, int device) {
  constexpr int kRowsOfPart = 8192, kMaxPieces = 128;
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int useful = std::min(batch.max_points / kRowsOfPart, kMaxPieces);
  return std::max(1, std::min(useful, 2 * processors / std::max(1, batch.clouds)));
}

size_t sort_bounds_bytes(const FpsBatch& batch) { return batch.clouds * sizeof(Bounds); }

size_t sort_counts_bytes(const FpsBatch& batch, int device) {
  return static_cast<size_t>(batch.clouds) * sort_pieces(batch, device) * kDigits * sizeof(int);
}

int sort_by_pieces(const FpsBatch& batch, const SortStorage& storage, int device, void* stream) {
  const int pieces = sort_pieces(batch, device);
  const LaunchShape plain = {batch.clouds * pieces, kThreads};
  const LaunchShape counting = {plain.blocks, plain.threads, sizeof(Counts)};
  const LaunchShape moving = {plain.blocks, plain.threads, sizeof(Move)};
  int code = cudaMemsetAsync(storage.bounds, 0, sort_bounds_bytes(batch),
                             static_cast<cudaStream_t>(stream));
  if (!code) code = launch(find_bounds, plain, stream, batch, storage.bounds, pieces);
  if (!code) code = launch(write_codes, counting, stream, batch, storage.bounds, storage, pieces);
  Item *from = storage.items[1], *to = storage.items[0];
  for (int pass = 0; !code && pass < kPasses; ++pass) {
    if (pass > 0)
      code = launch(count_pieces, counting, stream, batch, from, storage.counts, pieces, pass);
    if (!code) code = launch(move_pieces, moving, stream, batch, storage, from, to, pieces, pass);
    std::swap(from, to);
  }
  return code;
}

int make_leaves_by_pieces(const FpsBatch& batch, const SortStorage& sort, const Storage& storage,
                          int device, void* stream) {
  if (const int code = sort_by_pieces(batch, sort, device, stream)) return code;
  const int blocks =
      static_cast<int>(ceil_div(batch.max_points, kLeaf * kLeafWarps * kLeavesOfWarp));
  const LaunchShape shape = {batch.clouds * blocks, kLeafWarps * kWarp};
  return launch(make_leaves, shape, stream, batch, sort.order, storage, blocks);
}

}  // namespace farpoint::cuda::tree
