// Farthest point sampling with one thread block per cloud, the cloud in registers.
//
// Points and distances need no memory traffic; a shared copy of the points serves the one random
// read of a step, the winner's coordinates. Warps meet at one barrier a step, behind which every
// thread compares their results. Taken points need no mark: a sample is 0 from itself, and when
// every distance is 0 the rest is left to the tail.
#include "cuda/common/launch.cuh"
#include "cuda/fps/argmax.cuh"
#include "cuda/fps/cloud.cuh"
#include "cuda/fps/fps.h"
#include "cuda/fps/sample.cuh"

namespace farpoint::cuda {

// Distances order as their bits do, being neither negative nor NaN, and two maxima of integers are
// one instruction from sm_90 on.
template <int kCount>
__device__ float largest_of(const float* distances) {
  int bits = __float_as_int(distances[0]);
#pragma unroll
  for (int i = 1; i < kCount; ++i) bits = max(bits, __float_as_int(distances[i]));
  return __int_as_float(bits);
}

// A warp owns kItems * 32 consecutive rows. A distance is positive exactly while its point can
// still be the farthest: padding and non-finite points start at 0, and a sample is 0 from itself.
template <int kItems>
struct RegisterPoints {
  static constexpr int kGroup = 8, kGroups = kItems / kGroup;
  static_assert(kItems % kGroup == 0);

  Point p[kItems];
  float d[kItems];
  int first;  // row of item 0; item i is row first + 32 * i

  // The cloud, and a copy of its points, with zeros behind the last, in `copy`.
  __device__ void load(const Cloud& cloud, Point* copy) {
    first = warp_id() * kItems * kWarp + lane_id();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int row = first + i * kWarp;
      p[i] = cloud.point(min(row, cloud.n - 1));
      d[i] = row < cloud.n && is_finite(p[i]) ? infinity() : 0.0f;
      copy[row] = p[i];
    }
  }

  // fminf(0, NaN) is 0, so a non-finite point stays where it is.
  __device__ void update(Point sample) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) d[i] = fminf(d[i], squared_distance(p[i], sample));
  }

  __device__ Best best() const {
    float of_group[kGroups];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) of_group[g] = largest_of<kGroup>(d + g * kGroup);
    const float largest = warp_max(largest_of<kGroups>(of_group));
    return {largest, warp_min(first + offset_of<0>(largest, of_group))};
  }

 private:
  // From the row of item 0 to this lane's lowest row at the largest distance, far away where it has
  // none. Rows ascend with groups, so only the first group with such a row in any lane is searched:
  // comparing every item would cost a fifth of the step.
  template <int kFrom>
  __device__ int offset_of(float largest, const float (&of_group)[kGroups]) const {
    if constexpr (kFrom + 1 < kGroups) {
      if (!__any_sync(kAllLanes, of_group[kFrom] == largest)) {
        return offset_of<kFrom + 1>(largest, of_group);
      }
    }
    constexpr int kFarAway = 1 << 30;
    int offset = kFarAway;
#pragma unroll
    for (int i = (kFrom + 1) * kGroup; i-- > kFrom * kGroup;) {
      offset = d[i] == largest ? i * kWarp : offset;
    }
    return offset;
  }
};

namespace {

template <int kThreads, int kItems>
struct Shared {
  static constexpr int kCapacity = kThreads * kItems;
  Point points[kCapacity];
  unsigned taken[kCapacity / kWarp];
  BestRecords<kThreads / kWarp> records;
  TailShared tail;
};

template <int kThreads, int kItems>
struct BlockPicker {
  RegisterPoints<kItems> points;
  Shared<kThreads, kItems>& shared;

  __device__ Farthest farthest(int turn) {
    const Best best = block_best(points.best(), shared.records, turn);
    return {best.distance, with_row(shared.points[best.row], best.row)};
  }
  __device__ void apply(Point sample) { points.update(sample); }
};

// 32 items a thread are for processors full of clouds: as many registers as let three warps share a
// scheduler.
template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, kItems == 32 ? 12 : 1) sample_in_block(FpsBatch batch) {
  auto& shared = shared_as<Shared<kThreads, kItems>>();
  int emitted = 0;
  {
    const Cloud cloud = cloud_of(batch, blockIdx.x);
    if (cloud.m == 0) return;
    BlockPicker<kThreads, kItems> picker = {{}, shared};
    picker.points.load(cloud, shared.points);
    __syncthreads();
    emitted = sample_with(picker, cloud, first_sample(picker.farthest(1), cloud));
  }
  // Made anew: what the loop does not need would cost it registers.
  finish(cloud_of(batch, blockIdx.x), emitted, shared.tail, shared.taken);
}

struct Variant {
  int capacity;
  size_t shared_bytes;
  int (*run)(const FpsBatch&, void*);
};

template <int kThreads, int kItems>
constexpr Variant variant() {
  constexpr size_t kBytes = sizeof(Shared<kThreads, kItems>);
  return {kThreads * kItems, kBytes, [](const FpsBatch& batch, void* stream) {
            const LaunchShape shape = {batch.clouds, kThreads, kBytes};
            return launch(sample_in_block<kThreads, kItems>, shape, stream, batch);
          }};
}

// A cloud that has a processor nearly to itself is sampled by all four schedulers at once.
constexpr Variant kOneBlockPerSm[] = {variant<32, 8>(), variant<32, 16>(), variant<128, 8>(),
                                      variant<128, 16>(), variant<256, 16>()};
// With more clouds on a processor than it has schedulers, the fewest instructions win.
constexpr Variant kManyBlocksPerSm[] = {variant<32, 8>(), variant<32, 16>(), variant<32, 32>(),
                                        variant<128, 16>(), variant<256, 16>()};
constexpr int kSchedulers = 4;

}  // namespace

int fps_block_capacity(int device) {
  const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  int capacity = 0;
  for (const Variant& v : kOneBlockPerSm) {
    if (v.shared_bytes <= static_cast<size_t>(bytes)) capacity = v.capacity;
  }
  return capacity;
}

int fps_block(const FpsBatch& batch, int device, void* stream) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const bool many = batch.clouds > kSchedulers * processors;
  for (const Variant& v : many ? kManyBlocksPerSm : kOneBlockPerSm) {
    if (batch.max_points <= v.capacity) return v.run(batch, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace farpoint::cuda
