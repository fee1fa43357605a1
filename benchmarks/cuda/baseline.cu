// The algorithm of public kernels, as a baseline: one block per cloud, points and distances in global
// memory, a shared-memory tree with a barrier per level (Qi et al., PointNet++, NeurIPS 2017;
// written anew after the structure of its CUDA code, without the test that skips points near the
// origin).
#include <cuda_runtime.h>

namespace {

constexpr int kMaxThreads = 512;

__device__ float squared(const float* p, const float* s) {
  const float dx = p[0] - s[0], dy = p[1] - s[1], dz = p[2] - s[2];
  return dx * dx + dy * dy + dz * dz;
}

__device__ void reduce(float* distances, int* rows) {
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    const int other = threadIdx.x + half;
    if (threadIdx.x < half && distances[other] > distances[threadIdx.x]) {
      distances[threadIdx.x] = distances[other];
      rows[threadIdx.x] = rows[other];
    }
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kMaxThreads)
    sample(const float* clouds, int n, int m, float* all_nearest, int* all_indices) {
  __shared__ float distances[kMaxThreads];
  __shared__ int rows[kMaxThreads];
  const float* const xyz = clouds + 3ll * n * blockIdx.x;
  float* const nearest = all_nearest + static_cast<long long>(n) * blockIdx.x;
  int* const indices = all_indices + static_cast<long long>(m) * blockIdx.x;
  for (int i = threadIdx.x; i < n; i += blockDim.x) nearest[i] = 1e38f;
  int last = 0;
  if (threadIdx.x == 0) indices[0] = last;
  for (int k = 1; k < m; ++k) {
    float farthest = -1.0f;
    int row = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      const float d = fminf(squared(xyz + 3ll * i, xyz + 3ll * last), nearest[i]);
      nearest[i] = d;
      row = d > farthest ? i : row;
      farthest = fmaxf(farthest, d);
    }
    distances[threadIdx.x] = farthest;
    rows[threadIdx.x] = row;
    reduce(distances, rows);
    last = rows[0];
    __syncthreads();
    if (threadIdx.x == 0) indices[k] = last;
  }
}

}  // namespace

extern "C" int one_block_fps(const float* clouds, int batch, int n, int m, float* nearest,
                             int* indices, void* stream) {
  int threads = 1;
  while (threads < kMaxThreads && threads * 2 <= n) threads *= 2;
  sample<<<batch, threads, 0, static_cast<cudaStream_t>(stream)>>>(clouds, n, m, nearest, indices);
  return cudaGetLastError();
}
