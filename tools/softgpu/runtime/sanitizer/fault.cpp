// SIGSEGV: a host that touches a device's memory, or pinned memory that a copy still uses.
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "memory.h"

namespace softgpu {
namespace {

constexpr uintptr_t kPage = 4096;
struct sigaction before = {};
thread_local sigjmp_buf way_out;
thread_local bool guarded = false;
thread_local void* fault_address;

struct Pending {
  int reads = 0, writes = 0;
};
struct Range {
  uintptr_t begin, end;
  bool writes;
};
std::map<uintptr_t, Pending>& pending_pages = *new std::map<uintptr_t, Pending>;
std::vector<Range>& pending_ranges = *new std::vector<Range>;

void protect(uintptr_t page, const Pending& pending) {
  const int allowed = pending.writes  ? PROT_NONE
                      : pending.reads ? PROT_READ
                                      : PROT_READ | PROT_WRITE;
  mprotect(reinterpret_cast<void*>(page * kPage), kPage, allowed);
}

void change(const void* pointer, size_t bytes, bool writes, int by) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const Lock held(big);
  const Allocation* const allocation = find_allocation(begin);
  if (!allocation || allocation->kind != Kind::kPinned || bytes == 0) return;
  for (uintptr_t page = begin / kPage; page <= (begin + bytes - 1) / kPage; ++page) {
    Pending& pending = pending_pages[page];
    (writes ? pending.writes : pending.reads) += by;
    protect(page, pending);
    if (pending.reads == 0 && pending.writes == 0) pending_pages.erase(page);
  }
  if (by > 0) {
    pending_ranges.push_back({begin, begin + bytes, writes});
    return;
  }
  for (size_t i = 0; i < pending_ranges.size(); ++i) {
    const Range& range = pending_ranges[i];
    if (range.begin != begin || range.end != begin + bytes || range.writes != writes) continue;
    pending_ranges.erase(pending_ranges.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void write_stack() {
  void* frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), log_descriptor());
}

// What is pending at a pinned byte: 0 nothing, 1 a copy from it, 2 a copy to it.
int pending_at(uintptr_t address) {
  int pending = 0;
  for (const Range& range : pending_ranges)
    if (address >= range.begin && address < range.end) pending = range.writes ? 2 : pending | 1;
  return pending;
}

// A page of pinned memory that is closed for now: opened, and reported if these bytes are in use.
bool open_pinned(uintptr_t address) {
  const Lock held(big);
  const Allocation* const allocation = find_allocation(address);
  if (!allocation || allocation->kind != Kind::kPinned) return false;
  if (const int pending = pending_at(address)) {
    const char* const text = pending == 2 ? "the host touches pinned memory before a copy to it"
                                          : "the host writes pinned memory before a copy from it";
    found("pending", text, std::string(text) + " has ended");
    write_stack();
  }
  mprotect(reinterpret_cast<void*>(address / kPage * kPage), kPage, PROT_READ | PROT_WRITE);
  return true;
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (guarded) {
    fault_address = info->si_addr;
    siglongjmp(way_out, 1);
  }
  if (open_pinned(address)) return;
  const Allocation* const allocation = find_allocation(address);
  if (allocation && allocation->kind == Kind::kDevice) {
    found("host access", "host", "the host reads or writes memory of a device");
    write_stack();
  }
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) {
    before.sa_sigaction(signal_number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal_number);
  } else {
    signal(SIGSEGV, SIG_DFL);  // the instruction is tried again and ends the process
  }
}

}  // namespace

void watch_faults() {
  struct sigaction now;
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) return;
  before = now;
  struct sigaction ours = {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

std::string run_guarded(const std::function<void()>& run) {
  if (sigsetjmp(way_out, 1) != 0) {
    guarded = false;
    char text[60];
    snprintf(text, sizeof text, "a fault at %p", fault_address);
    return text;
  }
  guarded = true;
  run();
  guarded = false;
  return "";
}

void guard_pinned(const void* begin, size_t bytes, bool writes) {
  watch_faults();
  change(begin, bytes, writes, 1);
}

bool is_pending(uintptr_t begin, size_t bytes) {
  return std::any_of(pending_ranges.begin(), pending_ranges.end(), [=](const Range& range) {
    return range.begin < begin + bytes && begin < range.end;
  });
}

void release_pinned(const void* begin, size_t bytes, bool writes) {
  change(begin, bytes, writes, -1);
}

}  // namespace softgpu
