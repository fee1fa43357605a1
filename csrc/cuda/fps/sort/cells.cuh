// Cubic cells of a cloud's bounding box, numbered along a Hilbert curve. It never jumps, so leaves
// of it are more compact than those of a Morton curve: a sample goes down to a fifth to a third
// fewer.
#pragma once

#include "cuda/fps/cloud.cuh"
#include "cuda/fps/tree/node.cuh"

namespace farpoint::cuda::tree {

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
    if (all_finite(p)) box = around(box, Box{p, p});
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
  const float center = warp_median(v, all_finite(p));
  const float radius = warp_median(fabsf(v - center), all_finite(p));
  if (lane_id() != 0) return;
  bounds.center[axis] = center;
  bounds.radius[axis] = radius;
}

// The curve as Skilling has it ("Programming the Hilbert curve", 2004), level by level from the
// top: by the state and which eighth of a cell is next, where that comes on the curve (3 bits), and
// the state there (the bits above).
struct Curve {
  union {
    unsigned char next[24 * 8];
    unsigned words[24 * 8 / 4];
  };

  // By one thread: constants in global memory would come late.
  __device__ void fill() {
    constexpr unsigned kWords[] = {
        0x021b1108u, 0x05342e27u, 0x56494738u, 0x0d0a145bu, 0x6e670130u, 0x150c1273u, 0x1a1d817eu,
        0x038c504fu, 0x22252b94u, 0x514e807fu, 0x2a232d9cu, 0x69a0061fu, 0x048b5748u, 0x35324639u,
        0x4c6fab00u, 0x3d663a31u, 0xb8538fb4u, 0x61423645u, 0x4a097b10u, 0x4d263c2fu, 0x0e555f84u,
        0x21529043u, 0x60b9378eu, 0x0b5a745du, 0xb0af6bbcu, 0x413e6265u, 0x16776da4u, 0x29986a63u,
        0x403fb1aeu, 0x135c7275u, 0x7aa17d1eu, 0x4b68ac07u, 0xa6851982u, 0xbf5488b3u, 0x1c8d0f5eu,
        0x338a2091u, 0x24959b92u, 0xa7be1889u, 0x2c939d9au, 0x8778b6a9u, 0x8679a5a2u, 0xb7a86cbbu,
        0x7c17ad76u, 0x3b28aa99u, 0x588371b2u, 0x97449eb5u, 0x7059a3bau, 0x9f9664bdu,
    };
#pragma unroll
    for (int i = 0; i < 48; ++i) words[i] = kWords[i];
  }
};

// Cells of a cloud, 2^kLevels along the longest side of its bounding box: cubes, so that leaves
// stay near cubic whatever the shape of the cloud. Where the box is much larger than the bulk of
// the cloud, a few points that lie far outside would leave all others in one cell: then cells grow
// with their distance from the bulk, up to infinity.
template <int kLevels>
struct Grid {
  static_assert(kLevels <= 10);
  static constexpr unsigned kLastCode = (1u << 3 * kLevels) - 1;  // of rows not finite, too

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
    const float cells = (1 << kLevels) / side;
    return {{low[0], low[1], low[2]}, is_finite(cells) ? cells : 0.0f, false};
  }

  // The bits of v, two zeros after each. Products add what does not overlap.
  __device__ static unsigned spread(unsigned v) {
    if (kLevels > 8) v = v * 0x10001u & 0x030000ffu;
    v = v * 0x101u & 0x0300f00fu;
    v = v * 0x11u & 0x030c30c3u;
    return v * 5u & 0x09249249u;
  }

  // fmaxf takes 0 for the NaN that an overflowing side makes.
  __device__ unsigned step(float v, float low) const {
    constexpr float kMiddle = 1 << (kLevels - 1), kLast = 2 * kMiddle - 1;
    float place = (v - low) * cells;
    if (grows) place = kMiddle + kMiddle * (place / (1.0f + fabsf(place)));
    return static_cast<unsigned>(fminf(fmaxf(place, 0.0f), kLast));
  }

  // The shortest axis of most scans is z: the curve has fewer leaves with that axis first.
  __device__ unsigned code_of(Point p, const Curve& curve) const {
    if (!all_finite(p)) return kLastCode;
    const unsigned cell =
        4 * spread(step(p.z, low.z)) + 2 * spread(step(p.y, low.y)) + spread(step(p.x, low.x));
    unsigned code = 0, state = 0;
#pragma unroll
    for (int level = kLevels - 1; level >= 0; --level) {
      const unsigned next = curve.next[state | (cell >> 3 * level & 7u)];
      code = 8 * code + (next & 7u);
      state = next & ~7u;
    }
    return code;
  }
};

}  // namespace farpoint::cuda::tree
