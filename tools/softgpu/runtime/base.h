// Settings, messages, counters and the one lock of the software CUDA runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace softgpu {

using Lock = std::unique_lock<std::recursive_mutex>;
// Guards devices, allocations, streams' clocks and handles. Queues have locks of their own.
extern std::recursive_mutex& big;

// SOFTGPU_<name>, or the line "<name> <value>" of the file SOFTGPU_CONTROL, which may change while
// the program runs:
//   PROFILE                          H100 or T4
//   PROCESSORS, DEVICES              processors of a device, number of devices
//   SEED, DELAY_US                   random delays of streams
//   LOG, REPORT, TIMELINE            files for findings, counters and a timeline
//   FAIL, HANG                       faults
//   MALLOC_FAILS_EVERY, TAKEN_MB     memory that runs out, or is held by other processes
long setting(const char* name, long otherwise);
std::string text_setting(const char* name, const char* otherwise);

// One line to SOFTGPU_LOG, or to stderr.
void say(const char* kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
int log_descriptor();

void count(const std::string& name, long by = 1);
long counted(const std::string& name);

// A mistake of the program. Each key is written once and counted always.
void found(const char* kind, const std::string& key, const std::string& text);

// Writes the counters to SOFTGPU_REPORT now, or from now on: a server may end without its exit
// handlers.
void report();
void keep_reporting();

double now_ms();

}  // namespace softgpu
