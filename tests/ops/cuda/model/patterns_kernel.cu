// Accesses whose traffic is known, by one block of 32 or 64 threads: for the tests of its counter.
#include "cuda/common/device.cuh"
#include "cuda/common/launch.cuh"

namespace farpoint::cuda {
namespace {

// Lanes read `stride` values apart; every round again `step` values further on.
__global__ void read_global(const float* in, float* out, int stride, int offset, int rounds,
                            int step) {
  float sum = 0.0f;
  for (int r = 0; r < rounds; ++r) sum += in[threadIdx.x * stride + offset + r * step];
  out[threadIdx.x] = sum;
}

// A lane stores in a round of its own, 32 rounds.
__global__ void write_in_turns(int* out) {
  for (int round = 0; round < kWarp; ++round) {
    const unsigned turn = __ballot_sync(kAllLanes, lane_id() == round);
    if (turn >> lane_id() & 1u) out[lane_id()] = round;
  }
}

template <typename Value>
__global__ void go_through_shared(Value* out, int stride) {
  Value* const held = &shared_as<Value>();
  held[threadIdx.x * stride] = static_cast<Value>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = held[threadIdx.x * stride];
}

__global__ void read_shared_vectors(float4* out, int stride) {
  float4* const held = &shared_as<float4>();
  const float mine = static_cast<float>(threadIdx.x);
  held[threadIdx.x * stride] = make_float4(mine, mine, mine, mine);
  __syncthreads();
  out[threadIdx.x] = held[threadIdx.x * stride];
}

__global__ void add_to_shared(int* out, int words) {
  int* const sums = &shared_as<int>();
  sums[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&sums[threadIdx.x % words], 1);
  __syncthreads();
  out[threadIdx.x] = sums[threadIdx.x];
}

__global__ void add_to_global(int* out, int words) { atomicAdd(&out[threadIdx.x % words], 1); }

constexpr LaunchShape kWithShared = {1, 32, 33 * 32 * 16};

}  // namespace

extern "C" {

int model_read_global(const float* in, float* out, int threads, int stride, int offset, int rounds,
                      int step) {
  const LaunchShape shape = {1, static_cast<unsigned>(threads)};
  return launch(read_global, shape, nullptr, in, out, stride, offset, rounds, step);
}
int model_write_in_turns(int* out) { return launch(write_in_turns, {1, 32}, nullptr, out); }
int model_words_through_shared(float* out, int stride) {
  return launch(go_through_shared<float>, kWithShared, nullptr, out, stride);
}
int model_doubles_through_shared(double* out, int stride) {
  return launch(go_through_shared<double>, kWithShared, nullptr, out, stride);
}
int model_vectors_through_shared(float4* out, int stride) {
  return launch(read_shared_vectors, kWithShared, nullptr, out, stride);
}
int model_add_to_shared(int* out, int words) {
  return launch(add_to_shared, kWithShared, nullptr, out, words);
}
int model_add_to_global(int* out, int words) {
  return launch(add_to_global, {1, 32}, nullptr, out, words);
}
}

}  // namespace farpoint::cuda
