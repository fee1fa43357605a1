// Cubic cells of a cloud's bounding box, numbered along a Hilbert curve. It never jumps, so leaves
// of it are more compact than those of a Morton curve: a sample goes down to a fifth to a third
// fewer.
#pragma once

#include "cuda/fps/cloud.cuh"
#include "cuda/fps/tree/node.cuh"

namespace farpoint::cuda::tree {

constexpr int kAxisBits = 10;
constexpr int kCodeBits = 3 * kAxisBits;
constexpr unsigned kLastCode = (1u << kCodeBits) - 1;  // of rows that are not finite, too

// Of the finite points: largest rank of the negated and of the plain coordinates; all start at 0.
// And where half of a cloud is, by the look of 32 rows, immune to what lies far outside: medians,
// and median distances from these.
struct Bounds {
  unsigned below[3], above[3];
  float center[3], radius[3];
};

__device__ inline unsigned rank_of(float v) { return static_cast<unsigned>(ordered(v)) ^ 1u << 31; }
__device__ inline float from_rank(unsigned rank) {
  return from_ordered(static_cast<int>(rank ^ 1u << 31));
}

// Called by whole warps, with what the points of a lane span.
__device__ inline void widen(Bounds& bounds, const Box& box) {
  const float low[] = {box.low.x, box.low.y, box.low.z};
  const float high[] = {box.high.x, box.high.y, box.high.z};
  for (int a = 0; a < 3; ++a) {
    const unsigned below = __reduce_max_sync(kAllLanes, rank_of(-low[a]));
    const unsigned above = __reduce_max_sync(kAllLanes, rank_of(high[a]));
    if (lane_id() != 0) continue;
    atomicMax(&bounds.below[a], below);
    atomicMax(&bounds.above[a], above);
  }
}

// Rows [begin, end) of the cloud, all threads of the block together.
__device__ inline void widen_all(Bounds& bounds, const Cloud& cloud, int begin, int end) {
  Box box = empty_box();
#pragma unroll 4
  for (int row = begin + static_cast<int>(threadIdx.x); row < end;
       row += static_cast<int>(blockDim.x)) {
    const Point p = cloud.point(row);
    if (is_finite(p)) box = around(box, Box{p, p});
  }
  widen(bounds, box);
}

// Of the values that count, in any lane; infinite where there are none.
__device__ inline float warp_median(float v, bool counts) {
  const int sorted = warp_sorted(ordered(counts ? v : infinity()));
  const int count = __popc(__ballot_sync(kAllLanes, counts));
  return from_ordered(__shfl_sync(kAllLanes, sorted, count / 2));
}

// By a warp for each axis.
__device__ inline void find_bulk(Bounds& bounds, const Cloud& cloud, int axis) {
  if (cloud.n == 0) return;
  const Point p = cloud.point(static_cast<int>(int64_t{cloud.n} * lane_id() / kWarp));
  const float v = axis == 0 ? p.x : axis == 1 ? p.y : p.z;
  const float center = warp_median(v, is_finite(p));
  const float radius = warp_median(fabsf(v - center), is_finite(p));
  if (lane_id() != 0) return;
  bounds.center[axis] = center;
  bounds.radius[axis] = radius;
}

// Cells of a cloud, 2^kAxisBits along the longest side of its bounding box: cubes, so that leaves
// stay near cubic whatever the shape of the cloud. Where the box is much larger than the bulk of
// the cloud, a few points that lie far outside would leave all others in one cell: then cells grow
// with their distance from the bulk, up to infinity.
struct Grid {
  Point low;
  float cells;  // in a unit of length
  bool grows;   // `low` is the center of the bulk, and a unit its radius

  __device__ static Grid over(const Bounds& b) {
    constexpr float kFar = 64.0f;
    const float low[] = {-from_rank(b.below[0]), -from_rank(b.below[1]), -from_rank(b.below[2])};
    float side = 0.0f;
    for (int a = 0; a < 3; ++a) side = fmaxf(side, from_rank(b.above[a]) - low[a]);
    const float radius = fmaxf(fmaxf(b.radius[0], b.radius[1]), b.radius[2]);
    if (side > kFar * radius && radius > 0.0f)
      return {{b.center[0], b.center[1], b.center[2]}, 1.0f / radius, true};
    const float cells = (1 << kAxisBits) / side;
    return {{low[0], low[1], low[2]}, is_finite(cells) ? cells : 0.0f, false};
  }

  // Skilling's way from a cell to the curve ("Programming the Hilbert curve", 2004): from the top,
  // each bit of an axis reflects or exchanges what is below it, and what is left is a Gray code.
  template <int kBits>
  __device__ static void to_curve(unsigned& x, unsigned& y, unsigned& z) {
    const auto turn = [&x](unsigned& axis, unsigned bit) {
      const unsigned reflects = axis & bit ? bit - 1 : 0;
      const unsigned exchanged = (x ^ axis) & (bit - 1) & ~reflects;
      x ^= reflects | exchanged;
      axis ^= exchanged;
    };
#pragma unroll
    for (unsigned bit = 1u << (kBits - 1); bit > 1; bit >>= 1) {
      if (x & bit) x ^= bit - 1;
      turn(y, bit);
      turn(z, bit);
    }
    y ^= x;
    z ^= y;
    unsigned above = z >> 1;  // the parity of the bits above each
    for (int step = 1; step < kBits; step *= 2) above ^= above >> step;
    x ^= above, y ^= above, z ^= above;
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

  // The highest bits of the place on the curve.
  template <int kBits = kCodeBits>
  __device__ unsigned code_of(Point p) const {
    constexpr int kLeft = (kBits + 2) / 3, kDropped = kAxisBits - kLeft;  // bits of an axis
    if (!is_finite(p)) return kLastCode >> (kCodeBits - kBits);
    unsigned x = step(p.x, low.x) >> kDropped, y = step(p.y, low.y) >> kDropped,
             z = step(p.z, low.z) >> kDropped;
    to_curve<kLeft>(x, y, z);
    return (spread(x) << 2 | spread(y) << 1 | spread(z)) >> (3 * kLeft - kBits);
  }
};

}  // namespace farpoint::cuda::tree
