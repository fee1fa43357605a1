// CPU stand-in for csrc/cuda/common/ptx.cuh.
#pragma once
#define FARPOINT_CUDA_PTX_CUH

#include <cuda_runtime.h>

namespace farpoint::cuda {

template <typename T>
T& shared_as() {
  return *reinterpret_cast<T*>(model::shared_memory());
}

inline void barrier_sync(int id, int threads) { model::block_barrier(id, threads); }
inline void add_release(unsigned* count, unsigned amount) { *count += amount; }
inline unsigned load_acquire(const unsigned* count) { return *count; }
enum class Work { kLeaves, kNodes };
inline void tally(Work work, int amount) {
  if (model::here.thread % 32 == 0) model::work[static_cast<int>(work)] += amount;
}
inline void spin() { model::give_way(); }

inline void add_four(float* to, float4 v) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) model::fail("a vector reduction is not aligned");
  to[0] += v.x;
  to[1] += v.y;
  to[2] += v.z;
  to[3] += v.w;
}

inline unsigned cluster_rank() { return model::rank_in_cluster(); }
inline void cluster_sync() { model::cluster_barrier(); }

// An mbarrier of the model: bytes still expected, whether they were announced, completed phases.
struct Mbarrier {
  int32_t bytes;
  uint16_t announced;
  uint16_t phases;
};
static_assert(sizeof(Mbarrier) == sizeof(uint64_t));

inline void complete(Mbarrier& barrier) {
  if (barrier.announced == 0 || barrier.bytes != 0) return;
  barrier.announced = 0;
  ++barrier.phases;
}
inline void mbarrier_init(uint64_t* barrier) { *barrier = 0; }
inline void mbarrier_expect(uint64_t* barrier, unsigned bytes) {
  auto& mine = *reinterpret_cast<Mbarrier*>(barrier);
  if (mine.announced != 0) model::fail("an mbarrier was announced twice in a phase");
  mine.announced = 1;
  mine.bytes += static_cast<int32_t>(bytes);
  complete(mine);
}
inline void mbarrier_wait(uint64_t* barrier, unsigned parity) {
  const auto& mine = *reinterpret_cast<const volatile Mbarrier*>(barrier);
  while (mine.phases % 2 == parity) model::give_way();
}
template <typename T>
T* elsewhere(unsigned rank, const T* mine) {
  const auto offset = reinterpret_cast<const unsigned char*>(mine) - model::shared_memory();
  return reinterpret_cast<T*>(model::shared_memory_of(rank) + offset);
}
inline void send(unsigned rank, const void* slot, const uint64_t* barrier, float4 head,
                 float tail) {
  auto* const to = elsewhere(rank, static_cast<const unsigned char*>(slot));
  std::memcpy(to, &head, sizeof head);
  std::memcpy(to + sizeof head, &tail, sizeof tail);
  auto& theirs = *reinterpret_cast<Mbarrier*>(elsewhere(rank, barrier));
  theirs.bytes -= sizeof head + sizeof tail;
  complete(theirs);
}

}  // namespace farpoint::cuda
