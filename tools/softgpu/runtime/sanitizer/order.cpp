#include "sanitizer/order.h"

#include <algorithm>
#include <cstdio>

namespace softgpu {
namespace {

constexpr uint64_t kPageGranules = 8192;  // 2 MiB
struct Page {
  std::array<Granule, kPageGranules> granules;
};
std::mutex& lock = *new std::mutex;
std::unordered_map<uint64_t, std::unique_ptr<Page>>& pages =
    *new std::unordered_map<uint64_t, std::unique_ptr<Page>>;

Granule& at(uint64_t granule) {
  auto& page = pages[granule / kPageGranules];
  if (!page) page = std::make_unique<Page>();
  return page->granules[granule % kPageGranules];
}

// Calls `visit` for each granule of a range that something is known of, and its bytes in the range.
template <typename Visit>
void for_known(uint64_t begin, size_t bytes, Visit visit) {
  const uint64_t end = begin + bytes;
  for (uint64_t granule = begin / kGranule; granule * kGranule < end;) {
    const auto page = pages.find(granule / kPageGranules);
    if (page == pages.end()) {
      granule = (granule / kPageGranules + 1) * kPageGranules;
      continue;
    }
    const uint64_t base = granule * kGranule;
    const uint64_t first = std::max(begin, base), last = std::min(end, base + kGranule);
    Bytes inside;
    inside.set(first - base, last - first);
    visit(page->second->granules[granule % kPageGranules], inside);
    ++granule;
  }
}

void report_race(const char* kind, const Work& a, const Work& b, uint64_t granule) {
  char text[6000];
  snprintf(text, sizeof text,
           "%s near %#llx, which no event, stream or synchronization orders:\n  stream %d: %s\n"
           "  stream %d: %s",
           kind, static_cast<unsigned long long>(granule * kGranule), a.stream, a.what.c_str(),
           b.stream, b.what.c_str());
  found("race", a.what + b.what, text);
}

void compare(const Seen& old, const Seen& now, uint64_t granule) {
  if (old.written.meets(now.written)) {
    report_race("two writes", *old.work, *now.work, granule);
  } else if (old.written.meets(now.read)) {
    report_race("a write and a read", *old.work, *now.work, granule);
  } else if (old.read.meets(now.written)) {
    report_race("a read and a write", *old.work, *now.work, granule);
  }
}

// Later work is compared with the newest accesses to each byte alone.
void remember(Granule& granule, const Seen& now, uint64_t number) {
  auto& seen = granule.seen;
  for (Seen& old : seen) {
    if (old.work == now.work) continue;
    if (old.work->ordered_before(*now.work)) {
      old.written.remove(now.written);
      old.read.remove(now.written);
      old.read.remove(now.read);
    } else if (!now.work->ordered_before(*old.work)) {
      compare(old, now, number);
    }
  }
  const auto empty = [](const Seen& old) { return !old.read.any() && !old.written.any(); };
  seen.erase(std::remove_if(seen.begin(), seen.end(), empty), seen.end());
  seen.push_back(now);
  granule.valid.add(now.written);
}

}  // namespace

void Clock::join(const Clock& other) {
  if (ticks.size() < other.ticks.size()) ticks.resize(other.ticks.size());
  for (size_t i = 0; i < other.ticks.size(); ++i) ticks[i] = std::max(ticks[i], other.ticks[i]);
}

uint64_t Clock::of(int stream) const {
  return static_cast<size_t>(stream) < ticks.size() ? ticks[stream] : 0;
}

bool Work::ordered_before(const Work& later) const {
  return tick <= (stream == later.stream ? later.tick : later.clock.of(stream));
}

void Bytes::set(size_t first, size_t count) {
  for (size_t at = first; at < first + count;) {
    const size_t bit = at % 64, taken = std::min(64 - bit, first + count - at);
    words[at / 64] |= (taken == 64 ? ~uint64_t{0} : (uint64_t{1} << taken) - 1) << bit;
    at += taken;
  }
}

bool Bytes::any() const { return (words[0] | words[1] | words[2] | words[3]) != 0; }

bool Bytes::meets(const Bytes& other) const {
  uint64_t common = 0;
  for (size_t i = 0; i < words.size(); ++i) common |= words[i] & other.words[i];
  return common != 0;
}

void Bytes::add(const Bytes& other) {
  for (size_t i = 0; i < words.size(); ++i) words[i] |= other.words[i];
}

void Bytes::remove(const Bytes& other) {
  for (size_t i = 0; i < words.size(); ++i) words[i] &= ~other.words[i];
}

Accesses::Touched& Accesses::touched(uint64_t granule) {
  if (granule == last_) return *last_touched_;
  const auto [found, fresh] = touched_.try_emplace(granule);
  if (fresh) {
    const std::lock_guard<std::mutex> held(lock);
    found->second.granule = &at(granule);
  }
  last_ = granule;
  last_touched_ = &found->second;
  return found->second;
}

void Accesses::check_written(const Touched& here, const Bytes& now) const {
  Bytes missing = now;
  missing.remove(here.granule->valid);
  missing.remove(here.written);
  if (!missing.any()) return;
  const std::string text = work_->what + " reads memory that nothing wrote";
  found("uninitialized", work_->what, text);
}

void Accesses::add(uint64_t address, size_t bytes, bool reads, bool writes, bool checked) {
  const uint64_t end = address + bytes;
  for (uint64_t at = address; at < end;) {
    const size_t first = at % kGranule, count = std::min<uint64_t>(kGranule - first, end - at);
    Touched& here = touched(at / kGranule);
    Bytes now;
    now.set(first, count);
    if (reads && checked) check_written(here, now);
    if (reads) here.read.add(now);
    if (writes) here.written.add(now);
    at += count;
  }
}

void Accesses::finish() {
  const std::lock_guard<std::mutex> held(lock);
  for (auto& [number, touched] : touched_) {
    remember(*touched.granule, {work_, touched.read, touched.written}, number);
  }
  touched_.clear();
  last_ = ~uint64_t{0};
}

void forget_accesses(uint64_t begin, size_t bytes) {
  const std::lock_guard<std::mutex> held(lock);
  for_known(begin, bytes, [](Granule& granule, const Bytes& inside) {
    granule.valid.remove(inside);
    for (Seen& seen : granule.seen) {
      seen.read.remove(inside);
      seen.written.remove(inside);
    }
  });
}

void forget_contents(uint64_t begin, size_t bytes) {
  const std::lock_guard<std::mutex> held(lock);
  for_known(begin, bytes, [](Granule& g, const Bytes& inside) { g.valid.remove(inside); });
}

}  // namespace softgpu
