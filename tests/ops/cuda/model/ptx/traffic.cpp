#include "ptx/traffic.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "machine.h"

namespace model::traffic {

int64_t instructions;

namespace {

constexpr unsigned kLanes = 32;
constexpr uint64_t kSector = 32, kBanks = 32, kWord = 4;

struct Request {
  Access access;
  Space space;
  size_t bytes;  // of a lane
  uint32_t lanes = 0;
  std::array<uint64_t, kLanes> address{};
};

// How often a thread has executed each site since its lanes last met.
struct Thread {
  uint64_t met = 0;
  std::vector<std::pair<uint64_t, uint64_t>> executed;  // by site: value of `met`, times
};

using Sectors = std::unordered_set<uint64_t>;

Totals totals;
std::vector<Thread> threads;
std::unordered_map<uint64_t, Request> open;  // requests that not all lanes have joined
Sectors loaded_by_block, loaded, stored;     // the last two by the launch

void add_global(const Request& request) {
  std::set<uint64_t> sectors;
  int64_t useful = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(request.lanes >> lane & 1)) continue;
    useful += static_cast<int64_t>(request.bytes);
    const uint64_t first = request.address[lane] / kSector;
    const uint64_t last = (request.address[lane] + request.bytes - 1) / kSector;
    for (uint64_t sector = first; sector <= last; ++sector) sectors.insert(sector);
  }
  ++totals.requests;
  totals.useful_bytes += useful;
  totals.sectors += static_cast<int64_t>(sectors.size());
  totals.ideal_sectors += (useful + int64_t{kSector} - 1) / int64_t{kSector};
  const bool loads = request.access == Access::kLoad;
  for (const uint64_t sector : sectors) {
    (loads ? loaded : stored).insert(sector);
    totals.l1_sectors += !loads || loaded_by_block.insert(sector).second;
  }
}

// One bank hands out one word at a time; lanes that read it share it, lanes that add to it do not.
int64_t wavefronts_of(const Request& request, unsigned first, unsigned count) {
  std::array<std::vector<uint64_t>, kBanks> words;
  for (unsigned lane = first; lane < first + count; ++lane) {
    if (!(request.lanes >> lane & 1)) continue;
    const uint64_t begin = request.address[lane] / kWord;
    const uint64_t end = (request.address[lane] + request.bytes + kWord - 1) / kWord;
    for (uint64_t word = begin; word < end; ++word) {
      auto& of_bank = words[word % kBanks];
      const bool known = std::find(of_bank.begin(), of_bank.end(), word) != of_bank.end();
      if (!known || request.access == Access::kAtomic) of_bank.push_back(word);
    }
  }
  size_t most = 0;
  for (const auto& of_bank : words) most = std::max(most, of_bank.size());
  return static_cast<int64_t>(most);
}

// Lanes that ask for 8 or 16 bytes are served a half or a quarter of a warp at a time.
void add_shared(const Request& request) {
  const unsigned together = kLanes / static_cast<unsigned>(std::max(request.bytes / kWord, size_t{1}));
  ++totals.shared_requests;
  for (unsigned first = 0; first < kLanes; first += together) {
    const int64_t wavefronts = wavefronts_of(request, first, together);
    totals.wavefronts += wavefronts;
    totals.ideal_wavefronts += wavefronts > 0;
  }
}

void add(const Request& request) {
  request.space == Space::kGlobal ? add_global(request) : add_shared(request);
}

Thread& running() {
  if (threads.size() <= here.slot) threads.resize(here.slot + 1);
  return threads[here.slot];
}

}  // namespace

void touch(int site, Access access, Space space, uint64_t address, size_t bytes) {
  Thread& thread = running();
  if (thread.executed.size() <= static_cast<size_t>(site)) thread.executed.resize(site + 1);
  auto& [met, times] = thread.executed[site];
  if (std::exchange(met, thread.met) != thread.met) times = 0;
  const uint64_t warp = here.slot / kLanes, lane = here.slot % kLanes;
  const uint64_t key = ((thread.met * 1024 + uint64_t(site)) * kLanes + warp) << 24 | times++;
  Request& request = open.try_emplace(key, Request{access, space, bytes}).first->second;
  request.lanes |= 1u << lane;
  request.address[lane] = address;
  if (request.lanes != ~0u) return;
  add(request);
  open.erase(key);
}

void meet() { ++running().met; }

Totals take() {
  totals.instructions = std::exchange(instructions, 0);
  return std::exchange(totals, {});
}

void end_block() {
  for (const auto& [key, request] : open) add(request);
  open.clear();
  threads.clear();
  loaded_by_block.clear();
}

void end_launch() {
  totals.launch_sectors += static_cast<int64_t>(loaded.size() + stored.size());
  loaded.clear();
  stored.clear();
}

}  // namespace model::traffic
