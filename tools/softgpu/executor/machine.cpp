// The scheduler of fibers.
#include "machine.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "stores.h"

namespace executor {

Position here;

namespace {

constexpr size_t kStack = 64 * 1024;
constexpr unsigned kLanes = 32;
constexpr long kMostPasses = 4'000'000;

struct Barrier {
  unsigned arrived = 0;
  unsigned generation = 0;
};

struct Warp {
  Barrier turn;
  const char* what = nullptr;
  uint64_t offered[2][kLanes];
};

struct Block {
  std::unique_ptr<unsigned char[]> shared;
  Barrier barrier;
  std::vector<Warp> warps;
};

struct Fiber {
  jmp_buf state;
  Position position;
  const unsigned* waits_for = nullptr;
  unsigned unwanted = 0;
  bool started = false;
  bool done = false;
};

long operations = 0;
std::mt19937 random_engine;
std::string failed;
jmp_buf scheduler;
Fiber* running;
Launch current;
const std::function<void()>* body;
std::vector<Block> blocks;  // those that run at once
std::vector<Fiber> fibers;  // block by block

Block& block() { return blocks[here.slot / current.threads]; }

unsigned char* stack_of(size_t fiber) {
  static std::vector<unsigned char*> stacks;
  while (stacks.size() <= fiber) {
    void* const memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks.push_back(static_cast<unsigned char*>(memory));
  }
  return stacks[fiber];
}

void leave() { _longjmp(scheduler, 1); }

void enter() {
  (*body)();
  running->done = true;
  end_thread_stores();
  leave();
}

void start(Fiber& fiber, size_t slot) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack_of(slot);
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  makecontext(&context, enter, 0);
  fiber.started = true;
  setcontext(&context);
}

bool can_run(const Fiber& fiber) {
  return !fiber.done && !(fiber.waits_for && *fiber.waits_for == fiber.unwanted);
}

void resume(Fiber& fiber, size_t slot) {
  running = &fiber;
  here = fiber.position;
  fiber.waits_for = nullptr;
  if (_setjmp(scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.state, 1);
  start(fiber, slot);
}

// Now and then every warp gets a new speed, so that some run far ahead of others.
struct Pace {
  std::vector<unsigned> one_in;  // turns of a warp
  int passes_left = 0;

  void step(size_t count) {
    constexpr unsigned kSpeeds[] = {1, 1, 2, 40};
    if (passes_left-- > 0) return;
    passes_left = static_cast<int>(random_engine() % 200);
    one_in.resize(count);
    for (unsigned& speed : one_in) speed = kSpeeds[random_engine() % 4];
  }
  bool lets(size_t warp) const { return random_engine() % one_in[warp] == 0; }
};

// One turn for every warp whose pace allows it; returns whether anything could have run.
bool pass(std::vector<size_t>& warps, const Pace& pace) {
  std::shuffle(warps.begin(), warps.end(), random_engine);
  const bool backwards = random_engine() % 2 != 0;
  bool alive = false;
  for (const size_t first : warps) {
    const bool runs = pace.lets(first / kLanes);
    const size_t count = std::min<size_t>(kLanes, fibers.size() - first);
    for (size_t i = 0; i < count && failed.empty(); ++i) {
      const size_t slot = first + (backwards ? count - 1 - i : i);
      if (!can_run(fibers[slot])) continue;
      alive = true;
      if (runs) resume(fibers[slot], slot);
    }
  }
  return alive;
}

bool all_done() {
  return std::all_of(fibers.begin(), fibers.end(), [](const Fiber& f) { return f.done; });
}

void run_fibers() {
  std::vector<size_t> warps;
  for (size_t first = 0; first < fibers.size(); first += kLanes) warps.push_back(first);
  Pace pace;
  for (long passes = 0; failed.empty() && !all_done(); ++passes) {
    pace.step(warps.size());
    if (passes > kMostPasses) failed = "the kernel does not end";
    drain_ended_by_chance();
    if (!pass(warps, pace)) failed = failed.empty() ? "deadlock: every thread waits" : failed;
  }
}

void add_threads(unsigned number) {
  for (unsigned t = 0; t < current.threads; ++t) {
    Fiber fiber;
    const auto slot = static_cast<unsigned>(fibers.size());
    fiber.position = {t, number, current.threads, current.blocks, slot};
    fibers.push_back(fiber);
  }
}

void wait_while(const unsigned* word, unsigned value) {
  running->waits_for = word;
  running->unwanted = value;
  if (_setjmp(running->state) == 0) leave();
}

// Exited threads are not counted out, as on the oldest devices: all must arrive.
void arrive(Barrier& barrier, unsigned expected) {
  const unsigned generation = barrier.generation;
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  wait_while(&barrier.generation, generation);
}

void add_block(unsigned number) {
  Block block;
  block.shared.reset(new unsigned char[current.shared_bytes + 1]);
  std::memset(block.shared.get(), 0xcd, current.shared_bytes + 1);
  block.warps.resize((current.threads + kLanes - 1) / kLanes);
  blocks.push_back(std::move(block));
  add_threads(number);
}

// Those blocks together, to their end.
void run_blocks(const std::vector<unsigned>& numbers) {
  blocks.clear();
  fibers.clear();
  for (const unsigned number : numbers) add_block(number);
  begin_stores(fibers.size());
  run_fibers();
  for (const Block& one : blocks) forget_stores(one.shared.get(), current.shared_bytes);
}

}  // namespace

void seed(unsigned value) { random_engine.seed(value); }
const char* failure() { return failed.c_str(); }
void reset() { failed.clear(); }

void fail(const char* why) {
  failed = why;
  leave();
  std::abort();
}

int run(const Launch& launch, const std::function<void()>& kernel) {
  if (!failed.empty()) return 1;
  current = launch;
  body = &kernel;
  std::vector<unsigned> order(launch.blocks);
  for (unsigned b = 0; b < launch.blocks; ++b) order[b] = b;
  std::shuffle(order.begin(), order.end(), random_engine);
  if (launch.at_once) {
    run_blocks(order);
  } else {
    for (const unsigned number : order) run_blocks({number});
  }
  end_launch_stores();
  return failed.empty() ? 0 : 1;
}

void block_barrier() { arrive(block().barrier, here.threads); }

const uint64_t* warp_exchange(const char* what, uint64_t mine) {
  Warp& warp = block().warps[here.thread / kLanes];
  const unsigned generation = warp.turn.generation;
  if (warp.turn.arrived != 0 && std::strcmp(warp.what, what) != 0) {
    fail("lanes of a warp meet in different operations");
  }
  warp.what = what;
  uint64_t* const offered = warp.offered[generation % 2];
  offered[here.thread % kLanes] = mine;
  ++operations;
  arrive(warp.turn, kLanes);
  return offered;
}

unsigned char* shared_memory() { return block().shared.get(); }
size_t shared_bytes() { return current.shared_bytes; }
unsigned random_number() { return static_cast<unsigned>(random_engine()); }
long warp_operations() { return operations / kLanes; }

}  // namespace executor
