// Farthest point sampling with one thread block per cloud, the cloud in registers.
//
// 1. Public kernels keep points and distances in global memory and reduce through shared memory,
//    a barrier per level: 26 issue slots and 20 bytes of L1/L2 traffic per point and step.
// 2. Here both live in registers: 8 issue slots per point and no traffic. A shared copy of the
//    points serves the one random read of a step, the coordinates of the winner.
// 3. The tree of barriers became two warp reductions, one barrier and two more warp reductions.
// 4. Taken points need no mark: a sample is 0 from itself, and when every distance is 0 the rest is
//    left to the tail.
#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"
#include "cuda/fps/register_points.cuh"
#include "cuda/fps/tail.cuh"

namespace farpoint::cuda {
namespace {

template <int kThreads, int kItems>
struct Shared {
  static constexpr int kCapacity = kThreads * kItems;
  Cloud cloud;  // here, not in registers: the points need those
  Point points[kCapacity];
  unsigned taken[kCapacity / kWarp];
  BestRecords<kThreads / kWarp> records;
  TailShared tail;
};

template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, 1) sample_in_block(FpsBatch batch) {
  auto& shared = shared_as<Shared<kThreads, kItems>>();
  const Cloud& cloud = shared.cloud;
  if (threadIdx.x == 0) shared.cloud = cloud_of(batch, blockIdx.x);
  __syncthreads();
  if (cloud.m == 0) return;
  RegisterPoints<kItems> points;
  points.load(cloud, 0, cloud.n);
  for (int i = threadIdx.x; i < cloud.n; i += kThreads) shared.points[i] = cloud.point(i);
  const Best first = block_best(points.best(), shared.records, 1);
  __syncthreads();
  const bool start_counts = is_finite(shared.points[cloud.start]) || first.distance == 0.0f;
  int row = start_counts ? cloud.start : first.row;
  int emitted = 0;
  while (emitted < cloud.m) {
    const int k = emitted++;
    if (threadIdx.x == 0) cloud.put_index(k, row);
    if (cloud.is_done(k)) return;
    points.update(shared.points[row]);
    const Best best = block_best(points.best(), shared.records, k);
    if (threadIdx.x == 0) cloud.put_distance(k, best.distance);
    if (best.distance == 0.0f) break;
    row = best.row;
  }
  __syncthreads();
  append_tail(cloud, emitted, shared.tail, shared.taken);
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
            const LaunchShape shape = {static_cast<unsigned>(batch.clouds), kThreads, kBytes};
            return launch(sample_in_block<kThreads, kItems>, shape, stream, batch);
          }};
}

// Few, fat threads: a warp pays about 55 instructions a step whatever it holds.
constexpr Variant kVariants[] = {variant<32, 8>(), variant<128, 8>(), variant<128, 16>(),
                                 variant<256, 16>()};

}  // namespace

int fps_block_capacity(int device) {
  const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  int capacity = 0;
  for (const Variant& v : kVariants) {
    if (v.shared_bytes <= static_cast<size_t>(bytes)) capacity = v.capacity;
  }
  return capacity;
}

int fps_block(const FpsBatch& batch, void* stream) {
  for (const Variant& v : kVariants) {
    if (batch.max_points <= v.capacity) return v.run(batch, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace farpoint::cuda
