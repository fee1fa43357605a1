#include "graph.h"
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

}  // namespace

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

}  // namespace softgpu
