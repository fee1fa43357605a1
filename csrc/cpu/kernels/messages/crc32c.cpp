// CRC-32C by the instruction of the processor, or by a table where it has none.
#include <array>
#include <cstring>

#include "cpu/kernels/levels/backend.h"
#include "cpu/kernels/messages/wire.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace farpoint::cpu {
namespace {

using Table = std::array<uint32_t, 256>;

constexpr Table kTable = [] {
  constexpr uint32_t kReversed = 0x82F63B78;  // the polynomial, its lowest power first
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversed : 0);
    table[byte] = crc;
  }
  return table;
}();

uint32_t by_table(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size > 0; --size) crc = crc >> 8 ^ kTable[(crc ^ *data++) & 0xFF];
  return crc;
}

#if defined(__x86_64__)

// Every level above plain has it: AVX2 came after SSE4.2.
bool has_instruction() { return simd_level() != SimdLevel::kPlain; }

[[gnu::target("sse4.2")]] uint32_t by_instruction(uint32_t crc, const uint8_t* data, size_t size) {
  for (uint64_t word; size >= sizeof word; size -= sizeof word, data += sizeof word) {
    std::memcpy(&word, data, sizeof word);
    crc = static_cast<uint32_t>(_mm_crc32_u64(crc, word));
  }
  for (; size > 0; --size) crc = _mm_crc32_u8(crc, *data++);
  return crc;
}

#elif defined(__aarch64__)

bool has_instruction() {
  static const bool has = getauxval(AT_HWCAP) & HWCAP_CRC32;
  return has;
}

[[gnu::target("+crc")]] uint32_t by_instruction(uint32_t crc, const uint8_t* data, size_t size) {
  for (uint64_t word; size >= sizeof word; size -= sizeof word, data += sizeof word) {
    std::memcpy(&word, data, sizeof word);
    crc = __crc32cd(crc, word);
  }
  for (; size > 0; --size) crc = __crc32cb(crc, *data++);
  return crc;
}

#else

bool has_instruction() { return false; }
constexpr auto by_instruction = by_table;

#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  return ~(has_instruction() ? by_instruction : by_table)(~crc, bytes, size);
}

}  // namespace farpoint::cpu
