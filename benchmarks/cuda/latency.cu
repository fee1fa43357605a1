// The latencies that the static model in docs/performance_cuda.md assumes, in clock cycles per
// operation: each kernel runs a dependent chain of kRounds of one operation.
#include "cuda/common/device.cuh"
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

// Loads that depend on one another, over `kilobytes` of zeros: from L1 where these fit there, from
// L2 where they do not.
__global__ void load(float* cycles, unsigned* words, int kilobytes) {
  const unsigned last = kilobytes * 256 - 1;
  unsigned at = 0, sum = 0;
  for (unsigned i = 0; i <= last; i += 32) sum += words[i];
  const Clock begin = clock64();
  for (int i = 0; i < kRounds; ++i) at = (words[at] + at + 32 * 33) & last;
  report(begin, cycles);
  if (at + sum == 1) *words = at;
}

}  // namespace
}  // namespace farpoint::cuda

// `cycles` receives one number; `scratch` is 4 MB of zeros, both on the device. `size` is the number
// of threads for "barrier" and of kilobytes for "load", a power of two.
extern "C" int latency(const char* what, int size, float* cycles, unsigned* scratch, void* stream) {
  using namespace farpoint::cuda;
  const auto threads = static_cast<unsigned>(size);
  if (what[0] == 'r') return launch(redux, {1, kWarp}, stream, cycles, scratch);
  if (what[0] == 'b') return launch(barrier, {1, threads}, stream, cycles, scratch);
  return launch(load, {1, 1}, stream, cycles, scratch, size);
}
