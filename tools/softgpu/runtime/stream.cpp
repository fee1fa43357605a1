#include "stream.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "memory.h"

namespace softgpu {
namespace {

std::vector<Stream*>& streams = *new std::vector<Stream*>;
thread_local Accesses* now_running = nullptr;

// Streams drift apart by a seed, so that a missing wait shows.
void delay(std::mt19937& random) {
  static const bool seeded = !text_setting("SEED", "").empty();
  static const long most_us = setting("DELAY_US", seeded ? 2000 : 0);
  if (most_us == 0) return;
  usleep(static_cast<useconds_t>(random() % 4 ? random() % (most_us / 8 + 1) : random() % most_us));
}

// A line of SOFTGPU_TIMELINE: stream, begin and end in milliseconds, and what it was.
void write_span(const Work& work, double begin) {
  static const std::string path = text_setting("TIMELINE", "");
  static FILE* const file = path.empty() ? nullptr : fopen(path.c_str(), "a");
  if (!file || work.what.empty()) return;
  fprintf(file, "%d\t%.3f\t%.3f\t%s\n", work.stream, begin, now_ms(), work.what.c_str());
  fflush(file);
}

void run(const Queued& queued) {
  if (sticky || !queued.run) return;
  Accesses accesses(queued.work);
  const double begin = now_ms();
  now_running = &accesses;
  int code = 0;
  const std::string fault = run_guarded([&] { code = queued.run(accesses); });
  now_running = nullptr;
  accesses.finish();
  write_span(*queued.work, begin);
  if (!fault.empty()) code = cudaErrorIllegalAddress;
  if (code) lose_device(code, queued.work->what + (fault.empty() ? "" : ": " + fault));
}

Queued take(Stream* stream) {
  std::unique_lock<std::mutex> held(stream->lock);
  stream->changed.wait(held, [&] { return !stream->queue.empty(); });
  Queued queued = std::move(stream->queue.front());
  stream->queue.pop_front();
  return queued;
}

void work(Stream* stream) {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::vector<unsigned char> fault_stack(1 << 16);
  const stack_t alternative = {fault_stack.data(), 0, fault_stack.size()};
  sigaltstack(&alternative, nullptr);
  std::mt19937 random(static_cast<unsigned>(setting("SEED", 0) * 1000 + stream->id));
  for (;;) {
    Queued queued = take(stream);
    delay(random);
    run(queued);
    if (queued.after) queued.after();
    queued = {};
    const std::lock_guard<std::mutex> held(stream->lock);
    ++stream->done;
    stream->unfinished.pop_front();
    stream->changed.notify_all();
  }
}

// Threads start with their first work: torch makes 32 streams at a time.
void put(Stream* stream, Queued queued) {
  const uint64_t number = queued.work ? queued.work->number : next_number();
  const std::lock_guard<std::mutex> held(stream->lock);
  ++stream->queued;
  stream->unfinished.push_back(number);
  stream->queue.push_back(std::move(queued));
  if (!stream->started) std::thread(work, stream).detach();
  stream->started = true;
  stream->changed.notify_all();
}

void wait_until(Stream* stream, uint64_t count) {
  std::unique_lock<std::mutex> held(stream->lock);
  stream->changed.wait(held, [&] { return stream->done >= count; });
}

uint64_t queued_of(Stream* stream) {
  const std::lock_guard<std::mutex> held(stream->lock);
  return stream->queued;
}

// Later work of a stream waits for what another has now.
void order_after(Stream* stream, Stream* other) {
  stream->clock.join(other->clock);
  if (is_idle(other)) return;
  const uint64_t count = queued_of(other);
  put(stream, {{}, nullptr, [other, count] { wait_until(other, count); }});
}

void order_legacy(Stream* stream) {
  Device& device = devices[stream->device];
  if (stream->legacy) {
    for (Stream* other : device.streams)
      if (other != stream && other->blocking) order_after(stream, other);
  } else if (stream->blocking && device.legacy) {
    order_after(stream, device.legacy);
  }
}

Stream* legacy_of(int device) {
  const Lock held(big);
  Stream*& legacy = devices[device].legacy;
  if (!legacy) {
    legacy = make_stream(device, true);
    legacy->legacy = true;
  }
  return legacy;
}

}  // namespace

Clock& host_clock = *new Clock;

Accesses* running() { return now_running; }

Stream* make_stream(int device, bool blocking) {
  const Lock held(big);
  auto* const stream = new Stream;
  stream->id = static_cast<int>(streams.size());
  stream->device = device;
  stream->blocking = blocking;
  streams.push_back(stream);
  devices[device].streams.push_back(stream);
  return stream;
}

Stream* stream_of(cudaStream_t handle, int device) {
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return legacy_of(device);
  const Lock held(big);
  auto* const stream = reinterpret_cast<Stream*>(handle);
  return std::find(streams.begin(), streams.end(), stream) == streams.end() ? nullptr : stream;
}

bool is_idle(Stream* stream) {
  const std::lock_guard<std::mutex> held(stream->lock);
  return stream->done >= stream->queued;
}

uint64_t oldest_unfinished() {
  uint64_t oldest = next_number();
  for (Stream* stream : streams) {
    const std::lock_guard<std::mutex> held(stream->lock);
    if (!stream->unfinished.empty()) oldest = std::min(oldest, stream->unfinished.front());
  }
  return oldest;
}

WorkPointer enqueue(Stream* stream, const std::string& what, Run run, std::function<void()> after,
                    uint64_t number) {
  const Lock held(big);
  order_legacy(stream);
  stream->clock.join(host_clock);
  auto& ticks = stream->clock.ticks;
  if (ticks.size() <= static_cast<size_t>(stream->id)) ticks.resize(stream->id + 1);
  const uint64_t tick = ++ticks[stream->id];
  if (number == 0) number = next_number();
  const auto work = std::make_shared<const Work>(
      Work{stream->id, stream->device, tick, number, stream->clock, what});
  if (stream->graph) {
    capture(stream->graph, {std::move(run), work, std::move(after)});
  } else {
    put(stream, {std::move(run), work, std::move(after)});
  }
  return work;
}

void synchronize_stream(Stream* stream) {
  Clock clock;
  uint64_t count;
  {
    const Lock held(big);
    clock = stream->clock;
    count = queued_of(stream);
  }
  wait_until(stream, count);
  const Lock held(big);
  host_clock.join(clock);
}

void synchronize_device(int device) {
  std::vector<Stream*> all;
  {
    const Lock held(big);
    all = devices[device].streams;
  }
  for (Stream* stream : all) synchronize_stream(stream);
}

}  // namespace softgpu

using namespace softgpu;

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
  if (stream->graph) {
    invalidate(stream->graph);
    return returned(cudaErrorStreamCaptureUnsupported);
  }
  count("cudaStreamSynchronize");
  synchronize_stream(stream);
  return returned(static_cast<cudaError_t>(sticky.load()));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  SOFTGPU_ENTER();
  enqueue(stream_of(handle), "host function", [=](Accesses&) {
    function(data);
    return 0;
  });
  return cudaSuccess;
}

}  // extern "C"
