#include "cpu/kernels/messages/sample_request.h"

#include <cstring>
#include <ctime>
#include <initializer_list>
#include <vector>

#include "cpu/kernels/finite.h"
#include "cpu/kernels/fps/furthest_point_sample.h"

namespace farpoint::cpu {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian");

constexpr uint64_t kVarint = 0, kDouble = 1, kBytes = 2;  // wire types
constexpr uint64_t kFloat32 = 1, kInt32 = 7;              // farpoint.v1.DataType

constexpr uint64_t tag(uint64_t field, uint64_t type) { return field << 3 | type; }

// The fields of a message in order. Ends early, with `odd`, at what our clients do not write.
struct Reader {
  const uint8_t* at;
  const uint8_t* end;
  bool odd = false;

  bool more() const { return !odd && at < end; }

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

  Reader bytes() {
    const uint64_t size = varint();
    if (size > static_cast<uint64_t>(end - at)) odd = true;
    if (odd) return {end, end, true};
    at += size;
    return {at - size, at};
  }

  // A packed field; `count` numbers of it, no other number of them.
  void numbers(std::initializer_list<uint64_t*> values) {
    Reader inside = bytes();
    for (uint64_t* value : values) *value = inside.varint();
    odd |= inside.odd || inside.at != inside.end;
  }
};

// Each field of a message comes once; a second one would be merged with the first.
struct Once {
  uint64_t seen = 0;

  bool operator()(uint64_t tag) {
    const uint64_t bit = uint64_t{1} << (tag >> 3 & 63);
    const bool again = seen & bit;
    seen |= bit;
    return !again;
  }
};

bool read_points(Reader tensor, const uint8_t* message, farpoint_sample_request& request) {
  uint64_t type = 0, points = 0, columns = 0;
  Reader data = {tensor.end, tensor.end};
  for (Once once; tensor.more();) {
    const uint64_t field = tensor.varint();
    if (!once(field)) return false;
    switch (field) {
      case tag(1, kVarint):
        type = tensor.varint();
        break;
      case tag(2, kBytes):
        tensor.numbers({&points, &columns});
        break;
      case tag(3, kBytes):
        data = tensor.bytes();
        break;
      default:
        return false;
    }
  }
  const auto size = static_cast<uint64_t>(data.end - data.at);
  request.points = static_cast<int64_t>(points);
  request.data = data.at - message;
  return !tensor.odd && type == kFloat32 && columns == 3 && points >= 1 && size == 12 * points;
}

bool read(const uint8_t* message, int64_t size, farpoint_sample_request& request) {
  constexpr uint64_t kNotGiven = ~uint64_t{0};
  uint64_t length = kNotGiven, samples = 0, start = 0;
  uint64_t method = 0, policy = 0, points = 0, distances = 0;
  Reader reader = {message, message + size};
  for (Once once; reader.more();) {
    const uint64_t field = reader.varint();
    if (!once(field)) return false;
    switch (field) {
      case tag(1, kBytes):
        if (!read_points(reader.bytes(), message, request)) return false;
        break;
      case tag(2, kBytes):
        reader.numbers({&length});
        break;
      case tag(3, kBytes):
        reader.numbers({&samples});
        break;
      case tag(4, kBytes):
        reader.numbers({&start});
        break;
      case tag(5, kVarint):
        method = reader.varint();
        break;
      case tag(6, kVarint):
        policy = reader.varint();
        break;
      case tag(8, kVarint):
        points = reader.varint();
        break;
      case tag(9, kVarint):
        distances = reader.varint();
        break;
      default:
        return false;
    }
  }
  const auto n = static_cast<uint64_t>(request.points);
  if (reader.odd || n == 0 || samples < 1 || samples > n || start >= n) return false;
  if ((length != kNotGiven && length != n) || method > 1 || policy > 2) return false;
  request.samples = static_cast<int64_t>(samples);
  request.start = static_cast<int64_t>(start);
  request.return_points = points != 0;
  request.return_distances = distances != 0;
  // In pages, since ctypes makes a type for each size of buffer.
  request.response_bytes = (20 * request.samples + 256 + 4095) / 4096 * 4096;
  return true;
}

struct Writer {
  uint8_t* at;

  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at++ = static_cast<uint8_t>(value | 0x80);
    *at++ = static_cast<uint8_t>(value);
  }

  void bytes(const void* data, int64_t size) {
    std::memcpy(at, data, size);
    at += size;
  }

  void number(uint64_t field, double value) {
    varint(tag(field, kDouble));
    bytes(&value, sizeof value);
  }

  static int64_t varint_size(uint64_t value) {
    int64_t size = 1;
    for (; value >= 0x80; value >>= 7) ++size;
    return size;
  }

  // A Tensor of shape (rows) or (rows, 3).
  void tensor(uint64_t field, uint64_t type, int64_t rows, bool wide, const void* data) {
    const int64_t size = rows * (wide ? 12 : 4), shape = varint_size(rows) + wide;
    varint(tag(field, kBytes));
    varint(2 + 2 + shape + 1 + varint_size(size) + size);
    varint(tag(1, kVarint));
    varint(type);
    varint(tag(2, kBytes));
    varint(shape);
    varint(rows);
    if (wide) varint(3);
    varint(tag(3, kBytes));
    varint(size);
    bytes(data, size);
  }
};

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t answer(const uint8_t* message, const farpoint_sample_request& request, double arrived,
               uint8_t* response) {
  const int64_t n = request.points, m = request.samples;
  std::vector<float> xyz(3 * n), distances(request.return_distances ? m : 0);
  std::vector<int32_t> rows(m);
  std::memcpy(xyz.data(), message + request.data, 12 * n);
  if (!is_finite(xyz.data(), 3 * n)) return 0;
  FpsTask task = {xyz.data(),    n,           3,
                  false,         false,       m,
                  request.start, rows.data(), distances.empty() ? nullptr : distances.data()};
  const double begun = now();
  furthest_point_sample(&task, 1, 1);
  const double compute_s = now() - begun;
  Writer writer = {response};
  writer.tensor(1, kInt32, m, false, rows.data());
  if (request.return_points) {
    writer.tensor(3, kFloat32, m, true, gathered(xyz.data(), rows).data());
  }
  if (request.return_distances) writer.tensor(4, kFloat32, m, false, distances.data());
  writer.varint(tag(2, kBytes));  // lengths
  writer.varint(Writer::varint_size(m));
  writer.varint(m);
  writer.varint(tag(7, kBytes));  // timings: two numbers of nine bytes
  writer.varint(18);
  writer.number(2, 1e3 * compute_s);
  writer.number(3, 1e3 * (now() - arrived));
  return writer.at - response;
}

}  // namespace
}  // namespace farpoint::cpu

extern "C" int32_t farpoint_read_sample_request(const uint8_t* message, int64_t size,
                                                farpoint_sample_request* request) {
  *request = {};
  return farpoint::cpu::read(message, size, *request);
}

extern "C" int64_t farpoint_answer_sample_request(const uint8_t* message,
                                                  const farpoint_sample_request* request,
                                                  double arrived, uint8_t* response) {
  try {
    return farpoint::cpu::answer(message, *request, arrived, response);
  } catch (...) {  // the server tries again, and says what is wrong
    return 0;
  }
}
