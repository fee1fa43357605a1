// Morton codes: cubic cells of a cloud's bounding box, numbered along a space-filling curve.
#pragma once

#include "cuda/common/ordered_float.cuh"
#include "cuda/fps/cloud.cuh"

namespace farpoint::cuda::tree {

constexpr int kAxisBits = 10;
constexpr unsigned kNotFinite = 1u << 3 * kAxisBits;  // rows that are not finite come last

// Of the finite points: largest rank of the negated and of the plain coordinates; all start at 0.
struct Bounds {
  unsigned below[3], above[3];
};

__device__ inline unsigned rank_of(float v) { return static_cast<unsigned>(ordered(v)) ^ 1u << 31; }
__device__ inline float from_rank(unsigned rank) {
  return from_ordered(static_cast<int>(rank ^ 1u << 31));
}

__device__ inline void widen(unsigned* bound, float v, bool counts) {
  const unsigned largest = __reduce_max_sync(kAllLanes, counts ? rank_of(v) : 0u);
  if (lane_id() == 0 && largest != 0) atomicMax(bound, largest);
}

// Rows [begin, end) of the cloud, all threads of the block together.
__device__ inline void widen_all(Bounds& bounds, const Cloud& cloud, int begin, int end) {
  for (int first = begin; first < end; first += static_cast<int>(blockDim.x)) {
    const int row = first + static_cast<int>(threadIdx.x);
    const Point p = row < end ? cloud.point(row) : Point{infinity(), 0.0f, 0.0f};
    const float axes[] = {p.x, p.y, p.z};
    for (int a = 0; a < 3; ++a) {
      widen(&bounds.below[a], -axes[a], is_finite(p));
      widen(&bounds.above[a], axes[a], is_finite(p));
    }
  }
}

// Of the values that count, in any lane; infinite where there are none.
__device__ inline float warp_median(float v, bool counts) {
  const int sorted = warp_sorted(ordered(counts ? v : infinity()));
  const int count = __popc(__ballot_sync(kAllLanes, counts));
  return from_ordered(__shfl_sync(kAllLanes, sorted, count / 2));
}

// Where half of a cloud is, by the look of 32 rows: immune to what lies far outside.
struct Bulk {
  Point center;
  float radius;  // the largest of the axes' median distances from the center

  __device__ static Bulk of(const Cloud& cloud) {
    const Point p = cloud.point(static_cast<int>(int64_t{cloud.n} * lane_id() / kWarp));
    const bool counts = is_finite(p);
    const Point c = {warp_median(p.x, counts), warp_median(p.y, counts), warp_median(p.z, counts)};
    const float x = warp_median(fabsf(p.x - c.x), counts),
                y = warp_median(fabsf(p.y - c.y), counts);
    return {c, fmaxf(fmaxf(x, y), warp_median(fabsf(p.z - c.z), counts))};
  }
};

// Cells of a cloud, 2^kAxisBits along the longest side of its bounding box: cubes, so that leaves
// stay near cubic whatever the shape of the cloud. Where the box is much larger than the bulk of
// the cloud, a few points that lie far outside would leave all others in one cell: then cells grow
// with their distance from the bulk, up to infinity.
struct Grid {
  Point low;
  float cells;  // in a unit of length
  bool grows;   // `low` is the center of the bulk, and a unit its radius

  // Called by whole warps.
  __device__ static Grid over(const Bounds& b, const Cloud& cloud) {
    constexpr float kFar = 64.0f;
    const float low[] = {-from_rank(b.below[0]), -from_rank(b.below[1]), -from_rank(b.below[2])};
    float side = 0.0f;
    for (int a = 0; a < 3; ++a) side = fmaxf(side, from_rank(b.above[a]) - low[a]);
    const Bulk bulk = Bulk::of(cloud);
    if (side > kFar * bulk.radius && bulk.radius > 0.0f)
      return {bulk.center, 1.0f / bulk.radius, true};
    const float cells = (1 << kAxisBits) / side;
    return {{low[0], low[1], low[2]}, is_finite(cells) ? cells : 0.0f, false};
  }

  // The lowest ten bits of v, two zeros after each.
  __device__ static unsigned spread(unsigned v) {
    v = (v | v << 16) & 0x030000ffu;
    v = (v | v << 8) & 0x0300f00fu;
    v = (v | v << 4) & 0x030c30c3u;
    return (v | v << 2) & 0x09249249u;
  }

  // fmaxf takes 0 for the NaN that an overflowing side makes.
  __device__ unsigned step(float v, float low) const {
    constexpr float kMiddle = 1 << (kAxisBits - 1), kLast = 2 * kMiddle - 1;
    float place = (v - low) * cells;
    if (grows) place = kMiddle + kMiddle * (place / (1.0f + fabsf(place)));
    return static_cast<unsigned>(fminf(fmaxf(place, 0.0f), kLast));
  }

  __device__ unsigned code_of(Point p) const {
    if (!is_finite(p)) return kNotFinite;
    return spread(step(p.x, low.x)) << 2 | spread(step(p.y, low.y)) << 1 | spread(step(p.z, low.z));
  }
};

}  // namespace farpoint::cuda::tree
