// Which accesses to memory are ordered: vector clocks of streams, and what each 256 bytes remember.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base.h"

namespace softgpu {

// How much of each stream's work is known to be done.
struct Clock {
  std::vector<uint64_t> ticks;
  void join(const Clock& other);
  uint64_t of(int stream) const;
};

// A copy, kernel, host function or the like in a stream.
struct Work {
  int stream;
  int device;
  uint64_t tick;    // in its stream
  uint64_t number;  // in the order of calls
  Clock clock;      // when it was queued
  std::string what;
  bool ordered_before(const Work& later) const;
};
using WorkPointer = std::shared_ptr<const Work>;

constexpr size_t kGranule = 256;
struct Bytes {  // of a granule
  std::array<uint64_t, kGranule / 64> words{};
  void set(size_t first, size_t count);
  bool any() const;
  bool meets(const Bytes& other) const;
  void add(const Bytes& other);
  void remove(const Bytes& other);
};

struct Seen {
  WorkPointer work;
  Bytes read, written;
};
struct Granule {
  Bytes valid;  // written since it was allocated
  std::vector<Seen> seen;
};

// The reads and writes of one piece of work while it runs, byte by byte.
class Accesses {
 public:
  explicit Accesses(WorkPointer work) : work_(std::move(work)) {}
  // `checked`: reading what nothing wrote is reported.
  void add(uint64_t address, size_t bytes, bool reads, bool writes, bool checked = true);
  // Compares them with those of other work and reports races.
  void finish();
  const WorkPointer& work() const { return work_; }

 private:
  struct Touched {
    Granule* granule;
    Bytes read, written;
  };
  void check_written(const Touched& here, const Bytes& now) const;
  Touched& touched(uint64_t granule);

  WorkPointer work_;
  std::unordered_map<uint64_t, Touched> touched_;
  uint64_t last_ = ~uint64_t{0};
  Touched* last_touched_ = nullptr;
};

// Memory that is allocated anew, or freed: who used it before does not matter.
void forget_accesses(uint64_t begin, size_t bytes);
// Its contents count as not written, its users stay: torch hands out a block again.
void forget_contents(uint64_t begin, size_t bytes);

}  // namespace softgpu
