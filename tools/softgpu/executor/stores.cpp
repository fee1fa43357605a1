#include "stores.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "machine.h"

namespace executor {
namespace {

constexpr size_t kMostBytes = 16, kMostStores = 24;

struct Store {
  unsigned char* at;
  size_t bytes;
  unsigned char value[kMostBytes];
  bool strong;

  bool meets(const unsigned char* from, size_t count) const {
    return at < from + count && from < at + bytes;
  }
  void land() const { std::memcpy(at, value, bytes); }
};
using Stores = std::vector<Store>;

std::vector<Stores> unseen;  // of each thread that runs
Stores ended;                // strong ones of threads that ended: others see them at last
Stores left;                 // weak ones

Stores& mine() { return unseen[here.slot]; }

// A store, or an earlier one to the same bytes, which must land before it.
void land_one(Stores& stores, size_t picked) {
  for (size_t i = 0; i < picked; ++i) {
    if (stores[i].meets(stores[picked].at, stores[picked].bytes)) picked = i;
  }
  stores[picked].land();
  stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(picked));
}

void land_all(Stores& stores) {
  while (!stores.empty()) land_one(stores, random_number() % stores.size());
}

}  // namespace

void store(void* to, const void* from, size_t bytes, bool strong) {
  Stores& stores = mine();
  if (stores.size() == kMostStores) land_one(stores, random_number() % stores.size());
  Store one = {static_cast<unsigned char*>(to), bytes, {}, strong};
  std::memcpy(one.value, from, bytes);
  stores.push_back(one);
}

void load(void* to, const void* from, size_t bytes) {
  const auto* const source = static_cast<const unsigned char*>(from);
  auto* const target = static_cast<unsigned char*>(to);
  std::memcpy(target, source, bytes);
  for (const Store& one : mine()) {
    if (!one.meets(source, bytes)) continue;
    const unsigned char* const begin = std::max<const unsigned char*>(one.at, source);
    const unsigned char* const end =
        std::min<const unsigned char*>(one.at + one.bytes, source + bytes);
    std::memcpy(target + (begin - source), one.value + (begin - one.at), end - begin);
  }
}

void settle(const void* at, size_t bytes) {
  Stores& stores = mine();
  const auto* const address = static_cast<const unsigned char*>(at);
  for (size_t i = 0; i < stores.size();) {
    if (stores[i].meets(address, bytes)) {
      land_one(stores, i);
      i = 0;
    } else {
      ++i;
    }
  }
}

void drain_to_block() {
  Stores& stores = mine();
  for (size_t i = 0; i < stores.size();) {
    if (stores[i].strong) {
      ++i;
    } else {
      land_one(stores, i);
      i = 0;
    }
  }
}

void drain_by_chance() {
  Stores& stores = mine();
  while (!stores.empty() && random_number() % 8 == 0) {
    land_one(stores, random_number() % stores.size());
  }
}

void drain_ended_by_chance() {
  if (!ended.empty() && random_number() % 8 == 0) land_one(ended, random_number() % ended.size());
}

void begin_stores(size_t threads) { unseen.assign(threads, {}); }

void end_thread_stores() {
  for (const Store& one : mine()) (one.strong ? ended : left).push_back(one);
  mine().clear();
}

void forget_stores(const unsigned char* shared, size_t bytes) {
  for (Stores* const stores : {&ended, &left}) {
    const auto gone = [&](const Store& one) { return one.meets(shared, bytes); };
    stores->erase(std::remove_if(stores->begin(), stores->end(), gone), stores->end());
  }
}

void end_launch_stores() {
  land_all(ended);
  for (const Store& one : left) one.land();
  left.clear();
}

}  // namespace executor
