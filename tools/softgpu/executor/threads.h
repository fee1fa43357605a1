// PTX instructions that reach memory or other threads.
#pragma once

#include <array>

#include "instructions.h"
#include "softgpu.h"
#include "stores.h"

namespace ptx {

// Memory. An address of shared memory is an offset into the block's.
inline void* global(u64 address, size_t bytes, SoftgpuAccess access) {
  if (address % bytes != 0) executor::fail("an address is not aligned");
  const char* why = "";
  void* const at = softgpu_address(address, bytes, access, &why);
  if (!at) executor::fail(why);
  return at;
}
inline void* shared(u32 offset, size_t bytes) {
  if (offset + u64{bytes} > executor::shared_bytes())
    executor::fail("an address is not in shared memory");
  if (offset % bytes != 0) executor::fail("an address in shared memory is not aligned");
  return executor::shared_memory() + offset;
}
template <typename T>
T read(const void* from) {
  T value;
  executor::load(&value, from, sizeof value);
  return value;
}
template <typename T>
void write(void* to, T value, bool strong = false) {
  executor::store(to, &value, sizeof value, strong);
}
template <typename T>
T parameter(const void* const* parameters, int number, int offset) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(parameters[number]) + offset, sizeof value);
  return value;
}

// Atomic operations work on memory itself, and order nothing else: none here releases or acquires.
template <typename T, typename Fold>
T atom(void* at, T value, Fold fold) {
  executor::settle(at, sizeof value);
  T old;
  std::memcpy(&old, at, sizeof old);
  const T result = fold(old, value);
  std::memcpy(at, &result, sizeof result);
  return old;
}
template <typename T>
T atom_add(void* at, T v) {
  return atom(at, v, add<T>);
}
template <typename T>
T atom_max(void* at, T v) {
  return atom(at, v, max<T>);
}
template <typename T>
T atom_or(void* at, T v) {
  return atom(at, v, or_<T>);
}

// Warps. Nothing but bar.warp.sync orders memory.
inline u32 lane() { return executor::here.thread % 32; }
inline const u64* exchange(const char* what, u64 mine, u32 lanes) {
  if (lanes != ~0u) executor::fail("a warp operation leaves lanes out");
  executor::drain_by_chance();
  return executor::warp_exchange(what, mine);
}
inline void bar_warp_sync(u32 lanes) {
  executor::drain_to_block();
  exchange("bar.warp.sync", 0, lanes);
}
inline void bar_sync(u32 barrier) {
  if (barrier != 0) executor::fail("a named barrier");
  executor::drain_to_block();
  executor::drain_by_chance();
  executor::block_barrier();
}

template <typename T, typename Fold>
T redux(const char* what, T mine, u32 lanes, Fold fold) {
  const u64* const all = exchange(what, as<u64>(mine), lanes);
  T result = as<T>(all[0]);
  for (int other = 1; other < 32; ++other) result = fold(result, as<T>(all[other]));
  return result;
}
template <typename T>
T redux_sync_max(T mine, u32 lanes) {
  return redux("redux.max", mine, lanes, max<T>);
}
template <typename T>
T redux_sync_min(T mine, u32 lanes) {
  return redux("redux.min", mine, lanes, min<T>);
}
template <typename T>
T redux_sync_add(T mine, u32 lanes) {
  return redux("redux.add", mine, lanes, add<T>);
}
template <typename T>
u32 match_any_sync(T mine, u32 lanes) {
  const u64* const all = exchange("match.any", mine, lanes);
  u32 equal = 0;
  for (int other = 0; other < 32; ++other) equal |= u32{all[other] == mine} << other;
  return equal;
}
template <typename T>
u32 vote_sync_ballot(bool mine, u32 lanes) {
  const u64* const all = exchange("vote.ballot", mine, lanes);
  u32 votes = 0;
  for (int other = 0; other < 32; ++other) votes |= static_cast<u32>(all[other]) << other;
  return votes;
}
template <typename T>
bool vote_sync_any(bool mine, u32 lanes) {
  return vote_sync_ballot<u32>(mine, lanes) != 0;
}

// shfl.sync: the lane read from, and whether it lies in the segment; `c` holds segment mask and
// clamp.
struct Shuffled {
  u32 value;
  bool inside;
};
template <typename Source>
Shuffled shuffle(const char* what, u32 mine, u32 b, u32 c, u32 lanes, bool downwards,
                 Source source) {
  const u32 mask = c >> 8 & 31, bound = (lane() & mask) | (c & 31 & ~mask);
  const u32 from = source(lane(), b & 31, mask);
  const bool inside = downwards ? static_cast<s32>(from) >= static_cast<s32>(bound)
                                : static_cast<s32>(from) <= static_cast<s32>(bound);
  const u64* const all = exchange(what, mine, lanes);
  return {static_cast<u32>(all[inside ? from : lane()]), inside};
}
inline Shuffled shfl_sync_up(u32 mine, u32 b, u32 c, u32 lanes) {
  return shuffle("shfl.up", mine, b, c, lanes, true, [](u32 at, u32 by, u32) { return at - by; });
}
inline Shuffled shfl_sync_bfly(u32 mine, u32 b, u32 c, u32 lanes) {
  return shuffle("shfl.bfly", mine, b, c, lanes, false,
                 [](u32 at, u32 by, u32) { return at ^ by; });
}
inline Shuffled shfl_sync_idx(u32 mine, u32 b, u32 c, u32 lanes) {
  return shuffle("shfl.idx", mine, b, c, lanes, false,
                 [](u32 at, u32 of, u32 mask) { return (at & mask) | (of & ~mask); });
}

[[noreturn]] inline void assert_failed(u64 condition) {
  executor::fail(reinterpret_cast<const char*>(condition));
}

}  // namespace ptx

namespace executor {

// Adds the kernels of a module to those that the library exports.
struct Table {
  Table(std::initializer_list<SoftgpuKernel> kernels);
};

}  // namespace executor
