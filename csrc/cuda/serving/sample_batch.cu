// Copies a batch to the device, samples it and copies the samples back.
#include <cuda_runtime.h>

#include <chrono>

#include "cuda/common/error.h"
#include "cuda/fps/fps.h"
#include "cuda/serving/sample_batch.h"

namespace farpoint::cuda {
namespace {

template <class Value>
const Value* input(const farpoint_sample_batch& batch, int64_t offset) {
  return offset < 0 ? nullptr : reinterpret_cast<const Value*>(batch.memory + offset);
}

FpsBatch batch_of(const farpoint_sample_batch& batch) {
  char* const outputs = batch.memory + batch.outputs;
  FpsBatch fps = {};
  fps.xyz = input<float>(batch, batch.points);
  fps.offsets = input<int64_t>(batch, batch.offsets);
  fps.sample_offsets = input<int64_t>(batch, batch.sample_offsets);
  fps.start = input<int64_t>(batch, batch.starts);
  fps.radius = input<float>(batch, batch.radii);
  fps.indices = reinterpret_cast<int32_t*>(outputs);
  if (batch.distances >= 0) fps.distances = reinterpret_cast<float*>(outputs + batch.distances);
  fps.rows = batch.rows;
  fps.samples = batch.samples;
  fps.clouds = batch.clouds;
  fps.max_points = batch.max_points;
  fps.max_samples = batch.max_samples;
  return fps;
}

FpsPlan plan_of(const farpoint_sample_batch& batch) {
  return fps_plan(batch_of(batch), FpsMethod::kAuto, batch.device);
}

int start(const farpoint_sample_batch& batch) {
  const auto stream = static_cast<cudaStream_t>(batch.stream);
  if (const int code = cudaSetDevice(batch.device)) return code;
  for (const farpoint_upload* up = batch.uploads; up < batch.uploads + batch.upload_count; ++up) {
    char* const to = batch.memory + up->offset;
    const auto bytes = static_cast<size_t>(up->bytes);
    if (const int code = cudaMemcpyAsync(to, up->source, bytes, cudaMemcpyHostToDevice, stream)) {
      return code;
    }
  }
  char* const scratch = batch.memory + batch.scratch;
  if (const int code = fps(batch_of(batch), plan_of(batch), scratch, batch.device, batch.stream)) {
    return code;
  }
  const char* const outputs = batch.memory + batch.outputs;
  const auto down = static_cast<size_t>(batch.target_bytes);
  return cudaMemcpyAsync(batch.target, outputs, down, cudaMemcpyDeviceToHost, stream);
}

}  // namespace
}  // namespace farpoint::cuda

extern "C" {

int64_t farpoint_sample_scratch(const farpoint_sample_batch* batch) {
  return static_cast<int64_t>(farpoint::cuda::plan_of(*batch).scratch_bytes);
}

int32_t farpoint_sample_start(const farpoint_sample_batch* batch) {
  const int code = farpoint::cuda::start(*batch);
  // Also after a failure: what was queued before it uses the memory.
  const int recorded = cudaEventRecord(static_cast<cudaEvent_t>(batch->event),
                                       static_cast<cudaStream_t>(batch->stream));
  return code ? code : recorded;
}

int32_t farpoint_wait(void* event, int64_t most_ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(most_ns);
  for (;;) {
    const cudaError_t code = cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (code != cudaErrorNotReady) return code;
    if (std::chrono::steady_clock::now() >= end) return -1;
  }
}

int32_t farpoint_pin(void* memory, int64_t bytes, int32_t device) {
  if (const int code = cudaSetDevice(device)) return code;
  return cudaHostRegister(memory, static_cast<size_t>(bytes), cudaHostRegisterPortable);
}

int32_t farpoint_unpin(void* memory, int32_t device) {
  if (const int code = cudaSetDevice(device)) return code;
  return cudaHostUnregister(memory);
}

const char* farpoint_cuda_error(int32_t code) { return farpoint::cuda::take_error(code); }
}
