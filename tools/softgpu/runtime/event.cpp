#include "stream.h"

namespace softgpu {
namespace {

void end_record(const std::shared_ptr<Event>& event, uint64_t number) {
  const std::lock_guard<std::mutex> held(event->lock);
  if (number > event->done) {
    event->done = number;
    event->ended_ms = now_ms();
  }
  event->changed.notify_all();
}

void wait_until(const std::shared_ptr<Event>& event, uint64_t number) {
  std::unique_lock<std::mutex> held(event->lock);
  event->changed.wait(held, [&] { return event->done >= number; });
}

uint64_t last_record(const std::shared_ptr<Event>& event) {
  const std::lock_guard<std::mutex> held(event->lock);
  return event->recorded;
}

// A handle may be destroyed while its event is still waited for.
struct Handle {
  std::shared_ptr<Event> event;
};
const std::shared_ptr<Event>& event_of(cudaEvent_t handle) {
  return reinterpret_cast<Handle*>(handle)->event;
}

cudaError_t record_event(const std::shared_ptr<Event>& event, Stream* stream) {
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  const Lock held(big);
  event->graph = stream->graph;
  if (stream->graph) {
    event->clock = stream->clock;
    return cudaSuccess;
  }
  uint64_t number;
  {
    const std::lock_guard<std::mutex> event_held(event->lock);
    number = ++event->recorded;
  }
  enqueue(stream, "cudaEventRecord", {}, [event, number] { end_record(event, number); });
  event->clock = stream->clock;
  return cudaSuccess;
}

cudaError_t wait_event(Stream* stream, const std::shared_ptr<Event>& event) {
  const Lock held(big);
  if (event->graph) {  // the stream joins the capture that the event is of
    stream->graph = event->graph;
    join_capture(event->graph, stream);
    stream->clock.join(event->clock);
    return cudaSuccess;
  }
  const uint64_t number = last_record(event);
  if (number == 0) return cudaSuccess;
  stream->clock.join(event->clock);
  enqueue(stream, "cudaStreamWaitEvent", {}, [event, number] { wait_until(event, number); });
  return cudaSuccess;
}

cudaError_t synchronize_event(const std::shared_ptr<Event>& event) {
  Clock clock;
  uint64_t number;
  {
    const Lock held(big);
    clock = event->clock;
    number = last_record(event);
  }
  wait_until(event, number);
  const Lock held(big);
  host_clock.join(clock);
  return static_cast<cudaError_t>(sticky.load());
}

cudaError_t query_event(const std::shared_ptr<Event>& event) {
  const Lock held(big);
  {
    const std::lock_guard<std::mutex> event_held(event->lock);
    if (event->done < event->recorded) return cudaErrorNotReady;
  }
  host_clock.join(event->clock);
  return static_cast<cudaError_t>(sticky.load());
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

extern "C" {

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  SOFTGPU_ENTER();
  count("cudaStreamWaitEvent");
  Stream* const stream = stream_of(handle);
  return returned(stream ? wait_event(stream, event_of(event)) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  SOFTGPU_ENTER();
  count("cudaEventCreate");
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
  count("cudaEventQuery");
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
