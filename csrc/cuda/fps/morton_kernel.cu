// Morton codes that sort each cloud's rows along a space-filling curve. Rows that are not finite
// come last, padding after them.
#include <algorithm>

#include "cuda/common/launch.cuh"
#include "cuda/common/ordered_float.cuh"
#include "cuda/fps/cloud.cuh"
#include "cuda/fps/kernels.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAxisBits = 10;
constexpr unsigned kNotFinite = 1u << 3 * kAxisBits;
constexpr unsigned kPadding = 2 * kNotFinite;

// Largest ordered bits of the negated and of the plain coordinates; all start at 0.
struct Bounds {
  unsigned below[3], above[3];
};

__device__ unsigned rank_bits(float v) { return static_cast<unsigned>(ordered(v)) ^ 0x80000000u; }
__device__ float from_rank(unsigned bits) {
  return from_ordered(static_cast<int>(bits ^ 0x80000000u));
}

__device__ void widen(unsigned* bound, float v, bool counts) {
  const unsigned largest = __reduce_max_sync(kAllLanes, counts ? rank_bits(v) : 0u);
  if (lane_id() == 0 && largest != 0) atomicMax(bound, largest);
}

__global__ void __launch_bounds__(kThreads) find_bounds(FpsBatch batch, Bounds* bounds, int parts) {
  const int b = blockIdx.x / parts;
  const Cloud cloud = cloud_of(batch, b);
  const int stride = parts * kThreads;
  for (int begin = blockIdx.x % parts * kThreads; begin < cloud.n; begin += stride) {
    const int row = begin + static_cast<int>(threadIdx.x);
    const Point p = row < cloud.n ? cloud.point(row) : Point{infinity(), 0.0f, 0.0f};
    const float axes[] = {p.x, p.y, p.z};
    for (int a = 0; a < 3; ++a) {
      widen(&bounds[b].below[a], -axes[a], is_finite(p));
      widen(&bounds[b].above[a], axes[a], is_finite(p));
    }
  }
}

// The lowest ten bits of v, two zeros after each.
__device__ unsigned spread(unsigned v) {
  v = (v | v << 16) & 0x030000ffu;
  v = (v | v << 8) & 0x0300f00fu;
  v = (v | v << 4) & 0x030c30c3u;
  return (v | v << 2) & 0x09249249u;
}

__device__ unsigned cell(float v, const Bounds& bounds, int axis) {
  constexpr float kCells = 1 << kAxisBits;
  const float low = -from_rank(bounds.below[axis]);
  const float extent = from_rank(bounds.above[axis]) - low;
  const float place = extent > 0.0f ? (v - low) / extent * kCells : 0.0f;
  return static_cast<unsigned>(fminf(fmaxf(place, 0.0f), kCells - 1.0f));
}

__device__ unsigned code_of(Point p, const Bounds& bounds) {
  if (!is_finite(p)) return kNotFinite;
  return spread(cell(p.x, bounds, 0)) << 2 | spread(cell(p.y, bounds, 1)) << 1 |
         spread(cell(p.z, bounds, 2));
}

__global__ void __launch_bounds__(kThreads)
    write_keys(FpsBatch batch, const Bounds* bounds, int64_t* keys, int parts) {
  const int b = blockIdx.x / parts;
  const Cloud cloud = cloud_of(batch, b);
  const int rows = batch.offsets ? cloud.n : batch.max_points;
  for (int row = blockIdx.x % parts * kThreads + threadIdx.x; row < rows; row += parts * kThreads) {
    const unsigned code = row < cloud.n ? code_of(cloud.point(row), bounds[b]) : kPadding;
    keys[cloud.first_row + row] = int64_t{b} << 32 | code;
  }
}

}  // namespace

size_t fps_morton_scratch(const FpsBatch& batch) { return batch.clouds * sizeof(Bounds); }

int fps_morton_keys(const FpsBatch& batch, int64_t* keys, void* scratch, int device, void* stream) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int useful = (batch.max_points + kThreads - 1) / kThreads;
  const int parts = std::max(1, std::min(useful, 8 * processors / batch.clouds));
  const LaunchShape shape = {static_cast<unsigned>(batch.clouds * parts), kThreads};
  Bounds* const bounds = static_cast<Bounds*>(scratch);
  int code =
      cudaMemsetAsync(scratch, 0, fps_morton_scratch(batch), static_cast<cudaStream_t>(stream));
  if (!code) code = launch(find_bounds, shape, stream, batch, bounds, parts);
  return code ? code : launch(write_keys, shape, stream, batch, bounds, keys, parts);
}

}  // namespace farpoint::cuda
