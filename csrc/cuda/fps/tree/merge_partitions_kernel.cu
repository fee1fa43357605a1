// One sample of the samples of a cloud's partitions: their keys in order, the largest first.
#include "cuda/common/launch.cuh"
#include "cuda/fps/sample.cuh"
#include "cuda/fps/tree/partitions.cuh"

namespace farpoint::cuda::tree {
namespace {

constexpr int kMergeWarps = 8, kBlocksOfPart = 16, kFinishThreads = 512;

// The logs of one cloud, a lane for each.
struct Logs {
  const Key* mine;
  int count;

  __device__ Logs(const Partitions& partitions, const Cloud& cloud, int b)
      : mine(nullptr), count(0) {
    const Cuts cuts(cloud.n, partitions.count);
    if (lane_id() >= partitions.count) return;
    mine = partitions.logs + cloud.first_row + cuts.first_point(lane_id());
    count = static_cast<int>(partitions.words[int64_t{b} * partitions.count + lane_id()].high);
  }

  // Samples of all partitions before `key`, in the order of keys.
  __device__ int before(Key key) const {
    int low = 0;
    for (int high = count; low < high;) {
      const int middle = (low + high) / 2;
      if (mine[middle] > key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return __reduce_add_sync(kAllLanes, low);
  }
};

// The largest key of a sample that ends the cloud: one that is not farther than `stop_squared`.
__device__ Key last_key(const Cloud& cloud) { return key_of(fmaxf(cloud.stop_squared, 0.0f), 0); }

// A warp for a sample. Places beyond those that are wanted were sampled in vain.
__global__ void __launch_bounds__(kMergeWarps* kWarp) merge(FpsBatch batch, Partitions partitions) {
  const int blocks = partitions.count * kBlocksOfPart;
  const int b = blockIdx.x / blocks, part = blockIdx.x % blocks / kBlocksOfPart;
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  const Logs logs(partitions, cloud, b);
  const Key* const own =
      partitions.logs + cloud.first_row + Cuts(cloud.n, partitions.count).first_point(part);
  const int count = __shfl_sync(kAllLanes, logs.count, part), wanted = wanted_of(cloud);
  const Key last = last_key(cloud);
  for (int i = blockIdx.x % kBlocksOfPart * kMergeWarps + warp_id(); i < count;
       i += kBlocksOfPart * kMergeWarps) {
    const Key key = own[i];
    const int rank = logs.before(key);
    if (lane_id() != 0 || rank >= wanted) continue;
    if (cloud.distances) cloud.distances[rank] = distance_of(key);
    if (rank + 1 < cloud.m && key > last) cloud.put_index(rank + 1, row_of(key));
  }
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_partitions(FpsBatch batch, Storage storage, Partitions partitions) {
  auto& tail = shared_as<TailShared>();
  const int b = blockIdx.x;
  const Cloud cloud = cloud_of(batch, b);
  if (cloud.m == 0) return;
  const Logs logs(partitions, cloud, b);
  const int emitted = min(cloud.m, 1 + logs.before(last_key(cloud)));
  if (threadIdx.x == 0) {
    cloud.put_index(0, row_of(first_sample(cloud, partitions.first[b])));
  }
  // All points that are left lie on samples: none was found.
  if (logs.before(0) < emitted && threadIdx.x == 0 && cloud.distances) {
    cloud.distances[emitted - 1] = 0.0f;
  }
  Leaf* const leaves = storage.leaves + first_leaf(cloud.first_row, b);
  finish(cloud, emitted, tail, reinterpret_cast<unsigned*>(leaves));
}

}  // namespace

int merge_partitions(const FpsBatch& batch, const Storage& storage, const Partitions& partitions,
                     void* stream) {
  const auto blocks = static_cast<unsigned>(batch.clouds * partitions.count * kBlocksOfPart);
  const int code = launch(merge, {blocks, kMergeWarps * kWarp}, stream, batch, partitions);
  if (code) return code;
  const LaunchShape shape = {batch.clouds, kFinishThreads, sizeof(TailShared)};
  return launch(finish_partitions, shape, stream, batch, storage, partitions);
}

}  // namespace farpoint::cuda::tree
