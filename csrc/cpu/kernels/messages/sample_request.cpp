// Reads a SampleRequest.
#include "cpu/kernels/messages/sample_request.h"

#include "cpu/kernels/messages/wire.h"

namespace farpoint::cpu::messages {
namespace {

constexpr uint64_t kNotGiven = ~uint64_t{0};

bool read_points(Reader reader, const uint8_t* message, farpoint_sample_request& request) {
  uint64_t type = 0, points = 0, columns = 0;
  Reader data = {reader.end, reader.end};
  while (const uint64_t field = reader.next()) {
    switch (field) {
      case tag(kDataType, kVarint):
        type = reader.varint();
        break;
      case tag(kShape, kBytes):
        reader.numbers({&points, &columns});
        break;
      case tag(kData, kBytes):
        data = reader.bytes();
        break;
      default:
        return false;
    }
  }
  const auto size = static_cast<uint64_t>(data.end - data.at);
  request.points = static_cast<int64_t>(points);
  request.data = data.at - message;
  request.is_float64 = type == kFloat64;
  if (type != kFloat32 && type != kFloat64) return false;
  return !reader.odd && columns == 3 && points >= 1 &&
         size == (type == kFloat64 ? 24 : 12) * points;
}

// The fields of a request besides its points.
struct Options {
  uint64_t length = kNotGiven, samples = kNotGiven, start = 0;
  uint64_t method = 0, policy = 0, points = 0, distances = 0, checksums = 0;
  float radius = -1;

  // False for a field that is left to Python.
  bool read(uint64_t field, Reader& reader) {
    switch (field) {
      case tag(kLengths, kBytes):
        reader.numbers({&length});
        break;
      case tag(kSampleCounts, kBytes):
        reader.numbers({&samples});
        break;
      case tag(kStartIndices, kBytes):
        reader.numbers({&start});
        break;
      case tag(kMethod, kVarint):
        method = reader.varint();
        break;
      case tag(kNonfinitePolicy, kVarint):
        policy = reader.varint();
        break;
      case tag(kReturnPoints, kVarint):
        points = reader.varint();
        break;
      case tag(kReturnDistances, kVarint):
        distances = reader.varint();
        break;
      case tag(kReturnChecksums, kVarint):
        checksums = reader.varint();
        break;
      case tag(kCoveringRadius, kFixed32):
        radius = reader.float32();
        return radius >= 0;
      default:
        return false;
    }
    return true;
  }

  // Whether they are right, and what a request of one cloud has.
  bool fit(uint64_t n) const {
    if (samples < 1 || samples > n || start >= n || (length != kNotGiven && length != n)) {
      return false;
    }
    const bool to_radius = method == kPoissonDisk && radius >= 0;
    return (method <= kFarthestPoint || to_radius) && policy <= kIgnore;
  }
};

bool read_request(Reader reader, const uint8_t* message, farpoint_sample_request& request) {
  Options options;
  while (const uint64_t field = reader.next()) {
    const bool known = field == tag(kPoints, kBytes) ? read_points(reader.bytes(), message, request)
                                                     : options.read(field, reader);
    if (!known) return false;
  }
  const auto n = static_cast<uint64_t>(request.points);
  if (options.samples == kNotGiven && options.radius >= 0) options.samples = n;
  if (reader.odd || !options.fit(n)) return false;
  request.samples = static_cast<int64_t>(options.samples);
  request.start = static_cast<int64_t>(options.start);
  request.radius = options.radius;
  request.ignore_nonfinite = options.policy == kIgnore;
  request.return_points = options.points != 0;
  request.return_distances = options.distances != 0;
  request.return_checksums = options.checksums != 0;
  // In pages, since ctypes makes a type for each size of buffer.
  request.response_bytes = (32 * request.samples + 512 + 4095) / 4096 * 4096;
  return true;
}

bool read_streamed(Reader reader, const uint8_t* message, farpoint_sample_request& request) {
  Reader inside = {reader.end, reader.end};
  while (const uint64_t field = reader.next()) {
    switch (field) {
      case tag(kRequest, kBytes):
        inside = reader.bytes();
        break;
      case tag(kMode, kVarint):
        reader.varint();
        break;
      default:
        return false;
    }
  }
  return !reader.odd && read_request(inside, message, request);
}

}  // namespace
}  // namespace farpoint::cpu::messages

extern "C" int32_t farpoint_read_sample_request(const uint8_t* message, int64_t size,
                                                int32_t is_streamed,
                                                farpoint_sample_request* request) {
  namespace messages = farpoint::cpu::messages;
  *request = {};
  const messages::Reader reader = {message, message + size};
  return (is_streamed ? messages::read_streamed : messages::read_request)(reader, message,
                                                                          *request);
}
