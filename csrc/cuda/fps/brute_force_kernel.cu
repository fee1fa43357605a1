// Brute-force farthest point sampling, a block per cloud: the contract in as few lines as it takes.
//
// Each row has a rank: its squared distance to the nearest sample where it is finite, kNotFinite
// where it is not, kTaken once it is sampled. The row of the highest rank comes next, the lowest of
// equals, which is the whole contract. Coordinates lie dimension by dimension, so that a warp reads
// them in whole lines.
#include "cuda/common/launch.cuh"
#include "cuda/fps/cloud.cuh"
#include "cuda/fps/fps.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kNotFinite = -1;
constexpr int kTaken = -2;

template <typename Real>
struct Ranked {
  Real rank;
  int row;

  __device__ bool before(const Ranked& other) const {
    return rank != other.rank ? rank > other.rank : row < other.row;
  }
};

// Two sets of records, used in turn: a warp may write its next one while a slower one still reads.
template <typename Real>
struct Shared {
  Cloud cloud;
  Ranked<Real> of_warp[2][kWarps];
  Real sample[kMostDims];
};

template <typename Real>
__device__ Ranked<Real> block_first(Ranked<Real> mine, Ranked<Real>* records) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Ranked<Real> other = {__shfl_xor_sync(kAllLanes, mine.rank, step),
                                __shfl_xor_sync(kAllLanes, mine.row, step)};
    if (other.before(mine)) mine = other;
  }
  if (lane_id() == 0) records[warp_id()] = mine;
  __syncthreads();
  Ranked<Real> first = records[0];
  for (int w = 1; w < kWarps; ++w) {
    if (records[w].before(first)) first = records[w];
  }
  return first;
}

// The rows of one cloud.
template <typename Real>
struct Rows {
  const Real* values;  // of the first one
  int64_t pitch;       // from one dimension to the next
  int dims;

  __device__ bool is_finite(int row) const {
    bool finite = true;
    for (int d = 0; d < dims; ++d) {
      const Real v = values[d * pitch + row];
      finite = finite && v - v == 0;
    }
    return finite;
  }

  __device__ void load(int row, Real* sample) const {
    for (int d = threadIdx.x; d < dims; d += kThreads) sample[d] = values[d * pitch + row];
  }

  __device__ Real squared_distance(int row, const Real* sample) const {
    Real sum = 0;
    for (int d = 0; d < dims; ++d) {
      const Real apart = values[d * pitch + row] - sample[d];
      sum = fma(apart, apart, sum);
    }
    return sum;
  }
};

// The lowest finite row where the start is not finite.
template <typename Real>
__device__ int first_row(const Cloud& cloud, const Rows<Real>& rows, Real* ranks,
                         Ranked<Real>* records) {
  Ranked<Real> first = {Real(kTaken), cloud.n};
  for (int row = threadIdx.x; row < cloud.n; row += kThreads) {
    const bool finite = rows.is_finite(row);
    ranks[row] = finite ? Real(infinity()) : Real(kNotFinite);
    const Ranked<Real> here = {finite && row == cloud.start ? Real(1) : Real(finite ? 0 : -1), row};
    if (here.before(first)) first = here;
  }
  first = block_first(first, records);
  return first.rank < 0 ? cloud.start : first.row;
}

template <typename Real>
__global__ void __launch_bounds__(kThreads, 1)
    sample_by_brute_force(BruteFpsBatch batch, Real* nearest) {
  auto& shared = shared_as<Shared<Real>>();
  const Cloud& cloud = shared.cloud;
  if (threadIdx.x == 0) shared.cloud = cloud_of(batch.layout, blockIdx.x);
  __syncthreads();
  if (cloud.m == 0) return;
  const Rows<Real> rows = {static_cast<const Real*>(batch.values) + cloud.first_row,
                           batch.layout.rows, batch.dims};
  Real* const ranks = nearest + cloud.first_row;
  int32_t* const indices = cloud.indices;
  Real* const radii = static_cast<Real*>(batch.distances) + (indices - batch.layout.indices);
  const Real stop = batch.radius ? static_cast<const Real*>(batch.radius)[blockIdx.x] : Real(-1);
  int row = first_row(cloud, rows, ranks, shared.of_warp[1]);
  int k = 0;
  for (bool ends = false; k < cloud.m && !ends; ++k) {
    if (threadIdx.x == 0) cloud.put_index(k, row);
    rows.load(row, shared.sample);
    __syncthreads();
    const bool moves = rows.is_finite(row);
    Ranked<Real> mine = {Real(kTaken), cloud.n};
    for (int i = threadIdx.x; i < cloud.n; i += kThreads) {
      Real rank = i == row ? Real(kTaken) : ranks[i];
      if (moves && rank >= 0) {
        const Real squared = rows.squared_distance(i, shared.sample);
        if (squared < rank) rank = squared;
      }
      ranks[i] = rank;
      if (Ranked<Real>{rank, i}.before(mine)) mine = {rank, i};
    }
    const Ranked<Real> next = block_first(mine, shared.of_warp[k % 2]);
    const Real radius = sqrt(next.rank > 0 ? next.rank : Real(0));
    if (threadIdx.x == 0 && batch.distances) radii[k] = radius;
    ends = radius <= stop;
    row = next.row;
  }
  for (k += static_cast<int>(threadIdx.x); k < cloud.m; k += kThreads) {
    indices[k] = -1;
    if (batch.distances) radii[k] = 0;
  }
}

template <typename Real>
int run(const BruteFpsBatch& batch, void* nearest, void* stream) {
  const LaunchShape shape = {batch.layout.clouds, kThreads, sizeof(Shared<Real>)};
  return launch(sample_by_brute_force<Real>, shape, stream, batch, static_cast<Real*>(nearest));
}

}  // namespace

int fps_brute_force(const BruteFpsBatch& batch, void* nearest, void* stream) {
  if (batch.layout.clouds == 0 || batch.layout.max_samples == 0) return cudaSuccess;
  return batch.wide ? run<double>(batch, nearest, stream) : run<float>(batch, nearest, stream);
}

}  // namespace farpoint::cuda
