// The wire format of protobuf: the fields of farpoint.v1 that are read or written in C++, and how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace farpoint::cpu {

// CRC-32C (Castagnoli, RFC 3720) of what `crc` is of, followed by these bytes; 0 is of nothing.
uint32_t crc32c(uint32_t crc, const void* data, size_t size);

namespace messages {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian");

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

enum TensorField : uint64_t { kDataType = 1, kShape = 2, kData = 3, kCrc32c = 5 };

enum DataType : uint64_t { kFloat32 = 1, kFloat64 = 2, kInt32 = 7 };

enum RequestField : uint64_t {
  kPoints = 1,
  kLengths = 2,
  kSampleCounts = 3,
  kStartIndices = 4,
  kMethod = 5,
  kNonfinitePolicy = 6,
  kReturnPoints = 8,
  kReturnDistances = 9,
  kReturnChecksums = 10,
  kCoveringRadius = 12,
};

enum SamplingMethod : uint64_t { kFarthestPoint = 1, kPoissonDisk = 4 };  // 0 is the first of them

enum NonfinitePolicy : uint64_t { kReject = 1, kIgnore = 2 };  // 0 is the first of them

enum StreamRequestField : uint64_t { kRequest = 1, kMode = 2 };

enum ResponseField : uint64_t {
  kIndices = 1,
  kSampledLengths = 2,
  kSampledPoints = 3,
  kDistances = 4,
  kOrigins = 6,
  kTimings = 7,
};

enum TimingsField : uint64_t { kQueueMs = 1, kComputeMs = 2, kServerMs = 3 };

constexpr uint64_t tag(uint64_t field, WireType type) { return field << 3 | type; }

// The fields of a message in order. Ends early, with `odd`, at what our clients do not write.
struct Reader {
  const uint8_t* at;
  const uint8_t* end;
  bool odd = false;
  uint64_t seen = 0;

  // The tag of the next field, 0 at the end. Each field comes once; a second one would be merged
  // with the first.
  uint64_t next() {
    if (odd || at == end) return 0;
    const uint64_t tag = varint(), bit = uint64_t{1} << (tag >> 3 & 63);
    odd |= tag == 0 || seen & bit;
    seen |= bit;
    return odd ? 0 : tag;
  }

  // Numbers of 35 bits; protobuf would cut a longer one to the type of its field.
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 35 && at < end; shift += 7) {
      const uint8_t byte = *at++;
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    odd = true;
    return 0;
  }

  float float32() {
    float value = 0;
    if (end - at < static_cast<int64_t>(sizeof value)) {
      odd = true;
    } else {
      std::memcpy(&value, at, sizeof value);
      at += sizeof value;
    }
    return value;
  }

  Reader bytes() {
    const uint64_t size = varint();
    if (size > static_cast<uint64_t>(end - at)) odd = true;
    if (odd) return {end, end, true};
    at += size;
    return {at - size, at};
  }

  // A packed field; as many numbers as `values`, no other number of them.
  void numbers(std::initializer_list<uint64_t*> values) {
    Reader inside = bytes();
    for (uint64_t* value : values) *value = inside.varint();
    odd |= inside.odd || inside.at != inside.end;
  }
};

// Writes fields, never beyond `end`.
struct Writer {
  uint8_t* at;
  uint8_t* end;
  bool full = false;

  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(value | 0x80);
    byte(value);
  }

  void byte(uint64_t value) {
    const auto low = static_cast<uint8_t>(value);
    bytes(&low, 1);
  }

  void bytes(const void* data, int64_t size) {
    full |= size > end - at;
    if (full) return;
    std::memcpy(at, data, size);
    at += size;
  }

  template <class Number>
  void fixed(uint64_t field, Number value) {
    static_assert(sizeof value == 4 || sizeof value == 8);
    varint(tag(field, sizeof value == 8 ? kFixed64 : kFixed32));
    bytes(&value, sizeof value);
  }

  static int64_t varint_size(uint64_t value) {
    int64_t size = 1;
    for (; value >= 0x80; value >>= 7) ++size;
    return size;
  }
};

}  // namespace messages
}  // namespace farpoint::cpu
