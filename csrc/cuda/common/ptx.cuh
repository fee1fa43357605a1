// Inline PTX: named barriers, acquire and release, vector reductions, clusters, mbarriers. The CPU
// model of tests/ops/cuda/model replaces this file alone and runs every other line of csrc/cuda as
// it stands.
#ifndef FARPOINT_CUDA_PTX_CUH
#define FARPOINT_CUDA_PTX_CUH

#include <cuda_runtime.h>

#include <cstdint>

namespace farpoint::cuda {

// The block's dynamic shared memory as one object.
template <typename T>
__device__ T& shared_as() {
  extern __shared__ __align__(16) unsigned char farpoint_shared[];
  return *reinterpret_cast<T*>(farpoint_shared);
}

// A barrier of the first `threads` threads of a block; 0 belongs to __syncthreads.
__device__ inline void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Whatever the block wrote before its last barrier is seen by who reads the count with acquire.
__device__ inline void add_release(unsigned* count, unsigned amount) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(count), "r"(amount) : "memory");
}
__device__ inline unsigned load_acquire(const unsigned* count) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(count) : "memory");
  return value;
}

// Work that the CPU model counts, once a warp; nothing on a device.
enum class Work { kLeaves, kNodes };
__device__ inline void tally(Work, int) {}

// Between two looks at a word that another block will change. The hardware needs no help.
__device__ inline void spin() {}

// Adds four floats at a 16-byte boundary of global memory; nobody waits for the sums.
__device__ inline void add_four(float* to, float4 v) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
#else
  atomicAdd(to, v.x);
  atomicAdd(to + 1, v.y);
  atomicAdd(to + 2, v.z);
  atomicAdd(to + 3, v.w);
#endif
}

// Thread-block clusters and their barriers exist from sm_90 on; fps_plan() asks for them nowhere
// else.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Also makes the initialization of barriers known to the cluster.
__device__ inline void cluster_sync() {
  asm volatile(
      "fence.mbarrier_init.release.cluster;\n"
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}

// A barrier that completes a phase once one thread has announced bytes and they have arrived.
__device__ inline void mbarrier_init(uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void mbarrier_expect(uint64_t* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ inline void mbarrier_wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Writes 20 bytes to `slot` and counts them in `barrier`, both in the shared memory of another
// block of the cluster; the pointers are this block's own places of the same objects.
__device__ inline void send(unsigned rank, const void* slot, const uint64_t* barrier, float4 head,
                            float tail) {
  asm volatile(
      "{\n"
      ".reg .b32 to, done;\n"
      "mapa.shared::cluster.u32 to, %0, %2;\n"
      "mapa.shared::cluster.u32 done, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%3, %4, %5, %6}, "
      "[done];\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [to + 16], %7, [done];\n"
      "}" ::"r"(shared_address(slot)),
      "r"(shared_address(barrier)), "r"(rank), "f"(head.x), "f"(head.y), "f"(head.z), "f"(head.w),
      "f"(tail)
      : "memory");
}

#else

__device__ inline unsigned cluster_rank() { return 0; }
__device__ inline void cluster_sync() { __trap(); }
__device__ inline void mbarrier_init(uint64_t*) {}
__device__ inline void mbarrier_expect(uint64_t*, unsigned) {}
__device__ inline void mbarrier_wait(uint64_t*, unsigned) {}
__device__ inline void send(unsigned, const void*, const uint64_t*, float4, float) {}

#endif

}  // namespace farpoint::cuda

#endif
