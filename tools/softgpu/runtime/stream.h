// Streams, events and captures: work in order on a thread of its own, and the clocks that order it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "device.h"
#include "sanitizer/order.h"

namespace softgpu {

// What a piece of work does: 0, or the error that loses the device.
using Run = std::function<int(Accesses&)>;

struct Queued {
  Run run;
  WorkPointer work;
  std::function<void()> after;  // runs even on a device that is lost
};

struct Graph;  // of a capture
struct Stream {
  int id, device;
  bool blocking;  // waits for the legacy default stream, and that for it
  bool legacy = false;
  Clock clock;            // under `big`
  Graph* graph = nullptr;  // into which it is captured

  std::mutex lock;
  std::condition_variable changed;
  std::deque<Queued> queue;
  std::deque<uint64_t> unfinished;  // numbers of the work in the queue and of what runs
  uint64_t queued = 0, done = 0;
  bool started = false;
};

struct Event {
  int device;
  unsigned flags;
  Clock clock;  // of the last record; under `big`
  Graph* graph = nullptr;

  std::mutex lock;
  std::condition_variable changed;
  uint64_t recorded = 0, done = 0;
  double ended_ms = 0;
};

// What the host knows to be done: one timeline for its threads, which finds fewer races than there
// may be and invents none.
extern Clock& host_clock;

Stream* make_stream(int device, bool blocking);
// Null for a handle of no stream. Without a handle, the default stream of a device.
Stream* stream_of(cudaStream_t handle, int device = current_device);
bool is_idle(Stream* stream);
// All work with a lower number has ended, on every stream. Under `big`.
uint64_t oldest_unfinished();

// Queues work; `after` runs on the stream's thread once it ended. `number` is that of an earlier
// call which this one repeats. Work without a name is the runtime's own.
WorkPointer enqueue(Stream* stream, const std::string& what, Run run,
                    std::function<void()> after = {}, uint64_t number = 0);
void synchronize_stream(Stream* stream);
void synchronize_device(int device);

// The stream joins a capture; work that is captured.
void join_capture(Graph* graph, Stream* stream);
void capture(Graph* graph, Queued queued);
void invalidate(Graph* graph);  // by a call that no capture allows

// The work that runs on this thread; null outside of streams.
Accesses* running();

}  // namespace softgpu
