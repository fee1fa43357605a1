// CRC-32C (Castagnoli, RFC 3720) by the processor's instruction, or by a table where it has none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farpoint::cpu {

// Of what `crc` is of, followed by these bytes; 0 is of nothing.
uint32_t crc32c(uint32_t crc, const void* data, size_t size);

}  // namespace farpoint::cpu
