// Fiber scheduler of the CUDA device emulator.
#include "machine.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace model {

Position here;
int64_t work[2];

namespace {

constexpr size_t kStack = 64 * 1024;
constexpr unsigned kLanes = 32;
constexpr unsigned kBarriers = 16;
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
  Barrier barriers[kBarriers];
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

std::mt19937 random_engine;
std::string failed;
jmp_buf scheduler;
Fiber* running;
Launch current;
const std::function<void()>* body;
std::vector<Block> blocks;
std::vector<Barrier> clusters;
std::vector<Fiber> fibers;

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

// Now and then every block gets a new speed, so that some run far ahead of others.
struct Pace {
  std::vector<unsigned> one_in;  // turns of a block
  int passes_left = 0;

  void step(size_t count) {
    constexpr unsigned kSpeeds[] = {1, 1, 2, 40};
    if (passes_left-- > 0) return;
    passes_left = static_cast<int>(random_engine() % 200);
    one_in.resize(count);
    for (unsigned& speed : one_in) speed = kSpeeds[random_engine() % 4];
  }
  bool lets(unsigned block) const { return random_engine() % one_in[block] == 0; }
};

// One turn for every warp whose block's pace allows it; tells whether anything could have run.
bool pass(std::vector<size_t>& warps, const Pace& pace) {
  std::shuffle(warps.begin(), warps.end(), random_engine);
  const bool backwards = random_engine() % 2 != 0;
  bool alive = false;
  for (const size_t first : warps) {
    const bool runs = pace.lets(fibers[first].position.block);
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
    pace.step(blocks.size());
    if (passes > kMostPasses) failed = "the kernel does not end";
    if (!pass(warps, pace)) failed = failed.empty() ? "deadlock: every thread waits" : failed;
  }
}

void add_block(unsigned block) {
  for (unsigned t = 0; t < current.threads; ++t) {
    Fiber fiber;
    fiber.position = {t, block, current.threads, current.blocks};
    fibers.push_back(fiber);
  }
}

Block& my_block() { return blocks[here.block]; }

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

}  // namespace

void seed(unsigned value) { random_engine.seed(value); }
int processors() { return 4; }
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
  blocks = std::vector<Block>(launch.blocks);
  clusters = std::vector<Barrier>(launch.blocks / launch.cluster);
  for (Block& block : blocks) {
    block.shared.reset(new unsigned char[launch.shared_bytes + 1]);
    std::memset(block.shared.get(), 0xcd, launch.shared_bytes + 1);
    block.warps.resize((launch.threads + kLanes - 1) / kLanes);
  }
  std::vector<unsigned> order(launch.blocks);
  for (unsigned b = 0; b < launch.blocks; ++b) order[b] = b;
  std::shuffle(order.begin(), order.end(), random_engine);
  fibers.clear();
  for (const unsigned block : order) {
    add_block(block);
    if (launch.co_resident) continue;
    run_fibers();
    fibers.clear();
  }
  run_fibers();
  return failed.empty() ? 0 : 1;
}

void wait_while(const unsigned* word, unsigned value) {
  running->waits_for = word;
  running->unwanted = value;
  if (_setjmp(running->state) == 0) leave();
}

void give_way() {
  if (_setjmp(running->state) == 0) leave();
}

void block_barrier(unsigned id, unsigned threads) { arrive(my_block().barriers[id], threads); }

void cluster_barrier() {
  arrive(clusters[here.block / current.cluster], current.cluster * current.threads);
}

const uint64_t* warp_exchange(const char* what, uint64_t mine) {
  Warp& warp = my_block().warps[here.thread / kLanes];
  const unsigned generation = warp.turn.generation;
  if (warp.turn.arrived != 0 && std::strcmp(warp.what, what) != 0) {
    fail("lanes of a warp meet in different operations");
  }
  warp.what = what;
  uint64_t* const offered = warp.offered[generation % 2];
  offered[here.thread % kLanes] = mine;
  arrive(warp.turn, kLanes);
  return offered;
}

unsigned char* shared_memory() { return my_block().shared.get(); }

unsigned rank_in_cluster() { return here.block % current.cluster; }

unsigned char* shared_memory_of(unsigned rank) {
  return blocks[here.block / current.cluster * current.cluster + rank].shared.get();
}

}  // namespace model
