// Copies and fills between host, pinned and device memory.
#include <cstdio>
#include <cstring>

#include "memory.h"
#include "stream.h"

namespace softgpu {
namespace {

// One end of a copy: what it is, and where the runtime reaches it.
struct Side {
  uintptr_t address;
  unsigned char* at;
  bool device = false, pinned = false, inside = true;
  bool is_known() const { return device || pinned; }
};

Side side_of(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Side side = {address, static_cast<unsigned char*>(const_cast<void*>(pointer))};
  const Lock held(big);
  const Allocation* const allocation = find_allocation(address);
  if (!allocation) return side;
  side.at = allocation->alias_of(address);
  side.device = allocation->kind == Kind::kDevice;
  side.pinned = !side.device;
  side.inside = allocation->holds(address, bytes);
  return side;
}

const char* name_of(const Side& to, const Side& from) {
  if (to.device && from.device) return "copy on device";
  if (to.device) return from.pinned ? "copy to device" : "copy to device, pageable";
  if (from.device) return to.pinned ? "copy from device" : "copy from device, pageable";
  return "copy on host";
}

bool fits(cudaMemcpyKind kind, const Side& to, const Side& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to.device && !from.device;
    case cudaMemcpyHostToDevice:
      return to.device && !from.device;
    case cudaMemcpyDeviceToHost:
      return !to.device && from.device;
    case cudaMemcpyDeviceToDevice:
      return to.device && from.device;
    default:
      return true;
  }
}

// What a real copy would find: bytes that the call may not touch.
int check(const Side& side, size_t bytes, const Work& work) {
  if (!side.device) return cudaSuccess;
  Work any_device = work;  // peers are reached by copies alone
  {
    const Lock held(big);
    if (const Allocation* const found = find_allocation(side.address))
      any_device.device = found->device;
  }
  const std::string why = why_not(side.address, bytes, any_device);
  if (why.empty()) return cudaSuccess;
  found("memory", work.what + why, work.what + ": " + why);
  return cudaErrorIllegalAddress;
}

struct Copy {
  Side to, from;
  size_t bytes;
  std::shared_ptr<std::vector<unsigned char>> staged;  // of a pageable source

  int run(Accesses& accesses) const {
    if (const int code = check(from, bytes, *accesses.work())) return code;
    if (const int code = check(to, bytes, *accesses.work())) return code;
    // The host would read what nothing wrote; within a device it may be padding.
    const bool checked = from.device && !to.device;
    if (from.is_known()) accesses.add(from.address, bytes, true, false, checked);
    if (to.is_known()) accesses.add(to.address, bytes, false, true);
    memmove(to.at, staged ? staged->data() : from.at, bytes);
    return cudaSuccess;
  }
};

std::string described(const char* name, size_t bytes, const Side& to, const Side& from) {
  char text[120];
  snprintf(text, sizeof text, "%s, %zu bytes, %#zx <- %#zx", name, bytes, to.address, from.address);
  return text;
}

void guard(const Side& side, size_t bytes, bool writes) {
  if (side.pinned) guard_pinned(reinterpret_cast<void*>(side.address), bytes, writes);
}
void release(const Side& side, size_t bytes, bool writes) {
  if (side.pinned) release_pinned(reinterpret_cast<void*>(side.address), bytes, writes);
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream* stream) {
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  Copy job = {side_of(to, bytes), side_of(from, bytes), bytes, nullptr};
  if (!fits(kind, job.to, job.from)) return cudaErrorInvalidValue;
  const char* const name = name_of(job.to, job.from);
  const bool pageable = !job.to.is_known() || !job.from.is_known();
  if (!job.to.inside || !job.from.inside) {
    found("memory", name, described(name, bytes, job.to, job.from) + ": out of bounds");
    return cudaErrorInvalidValue;
  }
  count(name);
  if (pageable) count("asynchronous copies of pageable memory");
  // A pageable source is staged before the call returns; a pageable target is written by then.
  if (!job.from.is_known())
    job.staged = std::make_shared<std::vector<unsigned char>>(job.from.at, job.from.at + bytes);
  if (!stream->graph) {
    guard(job.to, bytes, true);
    guard(job.from, bytes, false);
  }
  enqueue(
      stream, described(name, bytes, job.to, job.from),
      [job](Accesses& accesses) { return job.run(accesses); },
      [job] {
        release(job.to, job.bytes, true);
        release(job.from, job.bytes, false);
      });
  if (!job.to.is_known()) synchronize_stream(stream);
  return static_cast<cudaError_t>(sticky.load());
}

cudaError_t fill(void* to, int value, size_t bytes, Stream* stream) {
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const Side side = side_of(to, bytes);
  if (!side.is_known() || !side.inside) return cudaErrorInvalidValue;
  enqueue(stream, "cudaMemset, " + std::to_string(bytes) + " bytes", [=](Accesses& accesses) {
    if (const int code = check(side, bytes, *accesses.work())) return code;
    accesses.add(side.address, bytes, false, true);
    memset(side.at, value, bytes);
    return 0;
  });
  return static_cast<cudaError_t>(sticky.load());
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(copy(to, from, bytes, kind, stream_of(stream)));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(fill(to, value, bytes, stream_of(stream)));
}

}  // extern "C"
