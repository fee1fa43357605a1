// A batch of clouds from pinned memory to pinned memory in one call, for servers: the copy to the
// device, the kernels, the copy back and the event after them follow one another on one stream. No
// interpreter and no torch: memory, stream and event are the caller's.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

struct farpoint_upload {
  const char* source;  // pinned
  int64_t offset, bytes;
};

// Offsets are in bytes, of arrays that FpsBatch describes (cuda/fps/fps.h).
struct farpoint_sample_batch {
  const farpoint_upload* uploads;  // inputs, to the beginning of `memory`
  char* memory;                    // of the device: inputs, outputs, scratch
  char* target;                    // pinned: gets the outputs
  void* stream;
  void* event;
  int64_t upload_count, target_bytes, outputs, scratch;
  int64_t points, offsets, sample_offsets, starts, radii;  // of inputs; radii -1 for none
  int64_t distances;                                       // of outputs, after the indices; -1
  int64_t rows, samples;
  int32_t clouds, max_points, max_samples, device;
};

// Bytes of scratch that the kernels want, aligned to 16.
int64_t farpoint_sample_scratch(const farpoint_sample_batch* batch);

// Queues all of it and returns at once: 0, or a CUDA error.
int32_t farpoint_sample_start(const farpoint_sample_batch* batch);

// Waits until an event has passed, by asking for it again and again.
//
// Returns 0; a CUDA error; or -1 once it took longer than `most_ns`.
int32_t farpoint_wait(void* event, int64_t most_ns);

// Locks host memory, so that copies of every device need no other; 0, or a CUDA error. The calling
// thread then works for this device.
int32_t farpoint_pin(void* memory, int64_t bytes, int32_t device);
int32_t farpoint_unpin(void* memory, int32_t device);

// The text of a CUDA error, which CUDA forgets.
const char* farpoint_cuda_error(int32_t code);
}
#pragma GCC visibility pop
