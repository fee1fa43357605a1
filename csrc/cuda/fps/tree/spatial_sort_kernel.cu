// Spatial sort of clouds: Morton codes by a radix sort that keeps the order of rows.
//
// 1. A library's sort sees one array: it would sort 64-bit keys of cloud and code in eight passes.
//    Clouds are known to the blocks here, so four passes over the code alone do.
// 2. A cloud that fits in shared memory is sorted there by one block, in one launch: bounding box,
//    codes and passes.
// 3. Larger clouds are shared by several blocks. Each counts the digits of its piece, and then
//    knows from the counts of all where its keys go: two launches a pass, no atomics in between.
#include <algorithm>
#include <utility>

#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"
#include "cuda/fps/tree/cells.cuh"
#include "cuda/fps/tree/radix.cuh"
#include "cuda/fps/tree/spatial_sort.h"

namespace farpoint::cuda {
namespace tree {
namespace {

using ShortRow = unsigned short;
constexpr int kMostShortRows = 1 << 16;

struct SharedHead {
  DigitCounts counts;
  Bounds bounds;
};

template <typename Row>
__device__ void write_codes(Items<Row> to, const Cloud& cloud, const Bounds& bounds, Range rows) {
  const Grid grid = Grid::over(bounds, cloud);
  for (int row = rows.begin + static_cast<int>(threadIdx.x); row < rows.end; row += kSortThreads) {
    to.keys[row] = grid.code_of(cloud.point(row));
    to.rows[row] = static_cast<Row>(row);
  }
}

// Memory behind the head: keys and rows, twice.
__device__ Items<ShortRow> items_behind(SharedHead& shared, int turn, int capacity) {
  unsigned* const keys = reinterpret_cast<unsigned*>(&shared + 1);
  ShortRow* const rows = reinterpret_cast<ShortRow*>(keys + 2 * capacity);
  return {keys + turn * capacity, rows + turn * capacity};
}

__global__ void __launch_bounds__(kSortThreads)
    sort_in_block(FpsBatch batch, int* order, int capacity) {
  auto& shared = shared_as<SharedHead>();
  const Cloud cloud = cloud_of(batch, blockIdx.x);
  const Range all = {0, cloud.n};
  if (cloud.m == 0) return;
  if (threadIdx.x < 6) (&shared.bounds.below[0])[threadIdx.x] = 0;
  __syncthreads();
  widen_all(shared.bounds, cloud, 0, cloud.n);
  __syncthreads();
  write_codes(items_behind(shared, 0, capacity), cloud, shared.bounds, all);
  for (int pass = 0; pass < kPasses; ++pass) {
    const Items<ShortRow> from = items_behind(shared, pass % 2, capacity);
    __syncthreads();
    count_digits(shared.counts, from.keys, all, pass);
    assign_places(shared.counts, count_of_block(shared.counts), 0);
    move_items(shared.counts, from, items_behind(shared, (pass + 1) % 2, capacity), all, pass);
  }
  __syncthreads();
  const Items<ShortRow> sorted = items_behind(shared, kPasses % 2, capacity);
  for (int i = threadIdx.x; i < cloud.n; i += kSortThreads) {
    order[cloud.first_row + i] = sorted.rows[i];
  }
}

// The block's piece of a cloud that `parts` blocks share.
struct Piece {
  Cloud cloud;
  int b, part;
  Range rows;
};

__device__ Piece piece_of(const FpsBatch& batch, int parts) {
  const int b = blockIdx.x / parts, part = blockIdx.x % parts;
  const Cloud cloud = cloud_of(batch, b);
  const int size = cloud.n / parts + 1;
  const auto bound = [&](int p) {
    return static_cast<int>(min(int64_t{p} * size, int64_t{cloud.n}));
  };
  return {cloud, b, part, {bound(part), bound(part + 1)}};
}

__device__ Items<int> items_of(Items<int> of_batch, const Cloud& cloud) {
  return {of_batch.keys + cloud.first_row, of_batch.rows + cloud.first_row};
}

__global__ void __launch_bounds__(kSortThreads)
    find_bounds(FpsBatch batch, Bounds* bounds, int parts) {
  const Piece piece = piece_of(batch, parts);
  widen_all(bounds[piece.b], piece.cloud, piece.rows.begin, piece.rows.end);
}

__global__ void __launch_bounds__(kSortThreads)
    write_keys(FpsBatch batch, const Bounds* bounds, Items<int> to, int parts) {
  const Piece piece = piece_of(batch, parts);
  write_codes(items_of(to, piece.cloud), piece.cloud, bounds[piece.b], piece.rows);
}

__global__ void __launch_bounds__(kSortThreads)
    count_pieces(FpsBatch batch, Items<int> from, int* counts_of_pieces, int parts, int pass) {
  auto& counts = shared_as<DigitCounts>();
  const Piece piece = piece_of(batch, parts);
  count_digits(counts, items_of(from, piece.cloud).keys, piece.rows, pass);
  const int count = count_of_block(counts);
  if (threadIdx.x >= kDigits) return;
  counts_of_pieces[(int64_t{piece.b} * parts + piece.part) * kDigits + threadIdx.x] = count;
}

__global__ void __launch_bounds__(kSortThreads)
    move_pieces(FpsBatch batch, Items<int> from, Items<int> to, const int* counts_of_pieces,
                int parts, int pass) {
  auto& counts = shared_as<DigitCounts>();
  const Piece piece = piece_of(batch, parts);
  from = items_of(from, piece.cloud);
  count_digits(counts, from.keys, piece.rows, pass);
  int total = 0, before = 0;
  if (threadIdx.x < kDigits) {
    const int* const all = counts_of_pieces + int64_t{piece.b} * parts * kDigits + threadIdx.x;
    for (int p = 0; p < parts; ++p) {
      before += p < piece.part ? all[p * kDigits] : 0;
      total += all[p * kDigits];
    }
  }
  assign_places(counts, total, before);
  move_items(counts, from, items_of(to, piece.cloud), piece.rows, pass);
}

size_t shared_bytes(int capacity) {
  return sizeof(SharedHead) + 2 * capacity * (sizeof(unsigned) + sizeof(ShortRow));
}

int sort_by_parts(const FpsBatch& batch, const SortStorage& storage, int parts, void* stream) {
  const LaunchShape plain = {static_cast<unsigned>(batch.clouds * parts), kSortThreads};
  const LaunchShape counting = {plain.blocks, plain.threads, sizeof(DigitCounts)};
  int code = cudaMemsetAsync(storage.bounds, 0, sort_bounds_bytes(batch),
                             static_cast<cudaStream_t>(stream));
  Items<int> from = {storage.keys[0], storage.rows[0]}, to = {storage.keys[1], storage.rows[1]};
  if (!code) code = launch(find_bounds, plain, stream, batch, storage.bounds, parts);
  if (!code) code = launch(write_keys, plain, stream, batch, storage.bounds, from, parts);
  for (int pass = 0; !code && pass < kPasses; ++pass) {
    code = launch(count_pieces, counting, stream, batch, from, storage.counts, parts, pass);
    if (code) break;
    code = launch(move_pieces, counting, stream, batch, from, to, storage.counts, parts, pass);
    std::swap(from, to);
  }
  return code;
}

}  // namespace

// Enough blocks to fill the device twice, and a piece that is worth the counting.
int sort_parts(const FpsBatch& batch, int device) {
  constexpr int kRowsOfPart = 8192, kMostParts = 128;
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int useful = std::min(batch.max_points / kRowsOfPart, kMostParts);
  return std::max(1, std::min(useful, 2 * processors / std::max(1, batch.clouds)));
}

size_t sort_bounds_bytes(const FpsBatch& batch) { return batch.clouds * sizeof(Bounds); }

size_t sort_counts_bytes(const FpsBatch& batch, int device) {
  return static_cast<size_t>(batch.clouds) * sort_parts(batch, device) * kDigits * sizeof(int);
}

int sort_in_space(const FpsBatch& batch, bool in_block, const SortStorage& storage, int device,
                  void* stream) {
  if (!in_block) return sort_by_parts(batch, storage, sort_parts(batch, device), stream);
  const LaunchShape shape = {static_cast<unsigned>(batch.clouds), kSortThreads,
                             shared_bytes(batch.max_points)};
  return launch(sort_in_block, shape, stream, batch, storage.rows[0], batch.max_points);
}

}  // namespace tree

int fps_sort_capacity(int device) {
  const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const size_t room = bytes - tree::shared_bytes(0);
  return static_cast<int>(std::min<size_t>(room / (tree::shared_bytes(1) - tree::shared_bytes(0)),
                                           tree::kMostShortRows));
}

}  // namespace farpoint::cuda
