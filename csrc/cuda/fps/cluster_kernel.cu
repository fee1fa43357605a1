// Farthest point sampling with one thread block cluster of up to 16 blocks per cloud (sm_90).
//
// 1. The block kernel ends where one block's registers end. A cluster's blocks hold a cloud of
//    131 072 points between them and see each other's shared memory.
// 2. Through global memory an exchange costs two trips to L2 and a fence. Here each block sends its
//    best to every other with st.async: 20 bytes (distance, row, coordinates) that also count down
//    the receiver's barrier, so that data and signal are one message and no block is a coordinator.
// 3. Two message buffers in turn: a block sends step k + 1 only after it has read all of step k.
#include "cuda/common/launch.cuh"
#include "cuda/fps/kernels.h"
#include "cuda/fps/register_points.cuh"
#include "cuda/fps/tail.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kMaxBlocks = 16;  // of a cluster; more than 8 is not portable

struct alignas(16) Message {
  float distance;
  int row;
  Point p;
};
constexpr unsigned kMessageBytes = 20;

template <int kItems>
struct Shared {
  static constexpr int kCapacity = kThreads * kItems;
  alignas(16) Message messages[2][kMaxBlocks];
  uint64_t barriers[2];
  Cloud cloud;
  Point points[kCapacity];
  unsigned taken[kMaxBlocks * kCapacity / kWarp];
  BestRecords<kThreads / kWarp> records;
  TailShared tail;
};

struct Sample {
  float distance;
  int row;
  Point p;
};

// The best of all blocks. Blocks hold ascending ranges of rows, so the first one wins a tie.
template <int kItems>
__device__ Sample exchange(Shared<kItems>& shared, Best mine, int begin, int blocks, int turn) {
  const int slot = turn % 2;
  if (threadIdx.x == 0) mbarrier_expect(&shared.barriers[slot], blocks * kMessageBytes);
  if (static_cast<int>(threadIdx.x) < blocks) {
    const bool any = mine.distance > 0.0f;
    const Point p = any ? shared.points[mine.row - begin] : Point{0.0f, 0.0f, 0.0f};
    send(threadIdx.x, &shared.messages[slot][cluster_rank()], &shared.barriers[slot],
         make_float4(mine.distance, __int_as_float(mine.row), p.x, p.y), p.z);
  }
  mbarrier_wait(&shared.barriers[slot], turn / 2 % 2);
  const Message* const messages = shared.messages[slot];
  const bool sent = lane_id() < blocks;
  const float theirs = sent ? messages[lane_id()].distance : 0.0f;
  const float largest = warp_max(theirs);
  const unsigned winners = __ballot_sync(kAllLanes, sent && theirs == largest);
  const Message& best = messages[__ffs(winners) - 1];
  return {best.distance, best.row, best.p};
}

template <int kItems>
__device__ void sample_cloud(Shared<kItems>& shared, int begin, int blocks) {
  const Cloud& cloud = shared.cloud;
  const bool leads = begin == 0;
  const bool writes = leads && threadIdx.x == 0;
  RegisterPoints<kItems> points;
  points.load(cloud, begin, cloud.n);
#pragma unroll
  for (int i = 0; i < kItems; ++i) shared.points[points.first - begin + i * kWarp] = points.p[i];
  Sample sample = exchange(shared, block_best(points.best(), shared.records, 1), begin, blocks, 0);
  const Point start = cloud.point(cloud.start);
  if (is_finite(start) || sample.distance == 0.0f) sample = {0.0f, cloud.start, start};
  for (int k = 0; k < cloud.m; ++k) {
    if (writes) cloud.put_index(k, sample.row);
    if (cloud.is_done(k)) return;
    points.update(sample.p);
    const Best best = block_best(points.best(), shared.records, k);
    sample = exchange(shared, best, begin, blocks, k + 1);
    if (writes) cloud.put_distance(k, sample.distance);
    if (sample.distance > 0.0f) continue;
    __syncthreads();
    if (leads) append_tail(cloud, k + 1, shared.tail, shared.taken);
    return;
  }
}

template <int kItems>
__global__ void __launch_bounds__(kThreads, 1) sample_in_cluster(FpsBatch batch, int blocks) {
  auto& shared = shared_as<Shared<kItems>>();
  if (threadIdx.x == 0) {
    shared.cloud = cloud_of(batch, blockIdx.x / blocks);
    mbarrier_init(&shared.barriers[0]);
    mbarrier_init(&shared.barriers[1]);
  }
  __syncthreads();
  cluster_sync();
  const int begin = static_cast<int>(cluster_rank()) * kThreads * kItems;
  if (shared.cloud.m > 0) sample_cloud(shared, begin, blocks);
  cluster_sync();  // no block exits while messages to it are in flight
}

struct Size {
  int items;
  int blocks;
};

int blocks_for(int points, int items) {
  int blocks = 1;
  while (blocks * kThreads * items < points) blocks *= 2;
  return blocks;
}

// Thin blocks are faster, as long as all clusters run at once.
Size size_for(const FpsBatch& batch, int device) {
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount, device);
  const int blocks = blocks_for(batch.max_points, 8);
  if (blocks <= kMaxBlocks && blocks * batch.clouds <= processors) return {8, blocks};
  return {16, blocks_for(batch.max_points, 16)};
}

struct Variant {
  void (*kernel)(FpsBatch, int);
  size_t shared_bytes;
};

Variant variant_of(const Size& size) {
  if (size.items == 8) return {sample_in_cluster<8>, sizeof(Shared<8>)};
  return {sample_in_cluster<16>, sizeof(Shared<16>)};
}

LaunchShape launch_shape(const FpsBatch& batch, const Size& size, size_t shared_bytes) {
  LaunchShape shape = {static_cast<unsigned>(batch.clouds * size.blocks), kThreads, shared_bytes};
  shape.cluster = static_cast<unsigned>(size.blocks);
  return shape;
}

int allow_large_clusters(const Variant& variant) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(variant.kernel),
                              cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

int clusters_at_once(const FpsBatch& batch, const Size& size) {
  const Variant variant = variant_of(size);
  if (allow_large_clusters(variant)) return 0;
  if (allow_shared(variant.kernel, variant.shared_bytes)) return 0;
  cudaLaunchAttribute attributes[2];
  const auto shape = launch_shape(batch, size, variant.shared_bytes);
  const auto config = launch_config(shape, attributes, nullptr);
  int clusters = 0;
  return cudaOccupancyMaxActiveClusters(&clusters, variant.kernel, &config) ? 0 : clusters;
}

}  // namespace

bool fps_cluster_fits(const FpsBatch& batch, int device) {
  if (device_attribute(cudaDevAttrComputeCapabilityMajor, device) < 9) return false;
  const Size size = size_for(batch, device);
  if (size.blocks > kMaxBlocks) return false;
  const bool fits = clusters_at_once(batch, size) > 0;
  if (!fits) cudaGetLastError();  // a refusal is an answer here, not an error to find later
  return fits;
}

int fps_cluster(const FpsBatch& batch, int device, void* stream) {
  const Size size = size_for(batch, device);
  const Variant variant = variant_of(size);
  if (const int code = allow_large_clusters(variant)) return code;
  return launch(variant.kernel, launch_shape(batch, size, variant.shared_bytes), stream, batch,
                size.blocks);
}

}  // namespace farpoint::cuda
