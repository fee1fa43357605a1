// Streams, events and host functions: the runtime API's functions of these names.
#include "stream.h"

using namespace softgpu;

namespace {

// A handle may be destroyed while its event is still waited for.
struct Handle {
  std::shared_ptr<Event> event;
};
const std::shared_ptr<Event>& event_of(cudaEvent_t handle) {
  return reinterpret_cast<Handle*>(handle)->event;
}


}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int) {
  SOFTGPU_ENTER();
  const bool blocking = !(flags & cudaStreamNonBlocking);
  *handle = reinterpret_cast<cudaStream_t>(make_stream(current_device, blocking));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  SOFTGPU_ENTER();
  Stream* const stream = stream_of(handle);
  const Lock held(big);
  if (!is_idle(stream)) return cudaErrorNotReady;
  host_clock.join(stream->clock);
  return static_cast<cudaError_t>(sticky.load());
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  SOFTGPU_ENTER();
  Stream* const stream = stream_of(handle);
  if (!stream) return returned(cudaErrorInvalidResourceHandle);
  if (stream->graph) return returned(cudaErrorStreamCaptureUnsupported);
  count("cudaStreamSynchronize");
  synchronize_stream(stream);
  return returned(static_cast<cudaError_t>(sticky.load()));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  SOFTGPU_ENTER();
  Stream* const stream = stream_of(handle);
  return returned(stream ? wait_event(stream, event_of(event)) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  SOFTGPU_ENTER();
  enqueue(stream_of(handle), "host function", [=](Accesses&) {
    function(data);
    return 0;
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  SOFTGPU_ENTER();
  auto event = std::make_shared<Event>();
  event->device = current_device;
  event->flags = flags;
  *handle = reinterpret_cast<cudaEvent_t>(new Handle{event});
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  SOFTGPU_ENTER();
  return returned(record_event(event_of(handle), stream_of(stream)));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned) {
  return cudaEventRecord(handle, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  SOFTGPU_ENTER();
  return returned(query_event(event_of(handle)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  SOFTGPU_ENTER();
  count("cudaEventSynchronize");
  return returned(synchronize_event(event_of(handle)));
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  SOFTGPU_ENTER();
  const auto &first = event_of(begin), &last = event_of(end);
  if ((first->flags | last->flags) & cudaEventDisableTiming)
    return returned(cudaErrorInvalidResourceHandle);
  if (first->recorded == 0 || last->recorded == 0) return returned(cudaErrorInvalidResourceHandle);
  if (first->done < first->recorded || last->done < last->recorded) return cudaErrorNotReady;
  *ms = static_cast<float>(last->ended_ms - first->ended_ms);
  return cudaSuccess;
}

}  // extern "C"
