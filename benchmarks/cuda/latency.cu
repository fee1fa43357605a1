// The four latencies that the model in docs/performance_cuda.md rests on, in clock cycles per
// operation: each kernel runs a dependent chain of kRounds of one operation.
#include "cuda/common/block_group.cuh"
#include "cuda/common/launch.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kRounds = 4096;
using Clock = long long;

__device__ void report(Clock begin, float* cycles) {
  const Clock end = clock64();
  if (blockIdx.x == 0 && threadIdx.x == 0) *cycles = static_cast<float>(end - begin) / kRounds;
}

__global__ void redux(float* cycles, unsigned* sink) {
  unsigned v = threadIdx.x;
  const Clock begin = clock64();
  for (int i = 0; i < kRounds; ++i) v = __reduce_max_sync(kAllLanes, v) + threadIdx.x;
  report(begin, cycles);
  if (threadIdx.x == 0) *sink = v;
}

__global__ void barrier(float* cycles, unsigned*) {
  const Clock begin = clock64();
  for (int i = 0; i < kRounds; ++i) __syncthreads();
  report(begin, cycles);
}

// Every block sends 20 bytes to every block of its cluster and waits for theirs, as
// cluster_kernel.cu does.
struct Messages {
  alignas(16) float4 slots[2][32];
  uint64_t barriers[2];
};

__global__ void mail_round(float* cycles, unsigned* sink, int blocks) {
  auto& shared = shared_as<Messages>();
  if (threadIdx.x == 0) {
    mbarrier_init(&shared.barriers[0]);
    mbarrier_init(&shared.barriers[1]);
  }
  __syncthreads();
  cluster_sync();
  const int rank = static_cast<int>(cluster_rank());
  float v = static_cast<float>(threadIdx.x);
  const Clock begin = clock64();
  for (int i = 0; i < kRounds; ++i) {
    uint64_t* const arrivals = &shared.barriers[i % 2];
    if (threadIdx.x == 0) mbarrier_expect(arrivals, blocks * 20);
    if (static_cast<int>(threadIdx.x) < blocks) {
      send(threadIdx.x, &shared.slots[i % 2][2 * rank], arrivals, make_float4(v, v, v, v), v);
    }
    mbarrier_wait(arrivals, i / 2 % 2);
    v += shared.slots[i % 2][2 * rank].x;
  }
  report(begin, cycles);
  cluster_sync();
  if (threadIdx.x == 0) *sink = __float_as_uint(v);
}

__global__ void grid_round(float* cycles, unsigned* arrived) {
  auto& group = shared_as<BlockGroup>();
  if (threadIdx.x == 0) group = {arrived, 0, gridDim.x, blockIdx.x};
  __syncthreads();
  const Clock begin = clock64();
  for (int i = 0; i < kRounds; ++i) group.sync();
  report(begin, cycles);
}

int run_cluster(int blocks, float* cycles, unsigned* scratch, void* stream) {
  const int code = cudaFuncSetAttribute(reinterpret_cast<const void*>(mail_round),
                                        cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  LaunchShape shape = {static_cast<unsigned>(blocks), kWarp, sizeof(Messages)};
  shape.cluster = static_cast<unsigned>(blocks);
  return code ? code : launch(mail_round, shape, stream, cycles, scratch, blocks);
}

}  // namespace
}  // namespace farpoint::cuda

// `cycles` receives one number and `scratch` is a zeroed word, both on the device. `size` is the
// number of threads for "barrier" and of blocks for "mail" and "grid".
extern "C" int latency(const char* what, int size, float* cycles, unsigned* scratch, void* stream) {
  using namespace farpoint::cuda;
  const auto blocks = static_cast<unsigned>(size);
  if (what[0] == 'r') return launch(redux, {1, kWarp}, stream, cycles, scratch);
  if (what[0] == 'b') return launch(barrier, {1, blocks}, stream, cycles, scratch);
  if (what[0] == 'm') return run_cluster(size, cycles, scratch, stream);
  LaunchShape shape = {blocks, 512, sizeof(BlockGroup)};
  shape.cooperative = true;
  return launch(grid_round, shape, stream, cycles, scratch);
}
