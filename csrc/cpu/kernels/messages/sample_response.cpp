// Answers a SampleRequest that was read, with a SampleResponse.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/kernels/clock.h"
#include "cpu/kernels/finite.h"
#include "cpu/kernels/fps/furthest_point_sample.h"
#include "cpu/kernels/messages/crc32c.h"
#include "cpu/kernels/messages/fields.h"
#include "cpu/kernels/messages/sample_request.h"
#include "cpu/kernels/messages/wire.h"

namespace farpoint::cpu::messages {
namespace {

// The cloud of a request, aligned and in float32.
struct Cloud {
  std::vector<float> xyz;
  double origin[3] = {};  // of float64: the first finite point, or zero

  Cloud(const uint8_t* data, const farpoint_sample_request& request) : xyz(3 * request.points) {
    if (request.is_float64) {
      narrow(data, request.points);
    } else {
      std::memcpy(xyz.data(), data, 12 * request.points);
    }
  }

  // Whether enough of its rows are finite.
  bool is_valid(const farpoint_sample_request& request) const {
    if (is_finite(xyz.data(), 3 * request.points)) return true;
    const int64_t needed = request.radius < 0 ? request.samples : 1;
    return request.ignore_nonfinite &&
           static_cast<int64_t>(finite_rows(xyz.data(), request.points).size()) >= needed;
  }

 private:
  void narrow(const uint8_t* data, int64_t points) {
    double row[3];
    for (int64_t i = 0; i < points; ++i) {
      std::memcpy(row, data + i * sizeof row, sizeof row);
      if (!is_finite(row)) continue;
      std::memcpy(origin, row, sizeof row);
      break;
    }
    for (int64_t i = 0; i < points; ++i) {
      std::memcpy(row, data + i * sizeof row, sizeof row);
      for (int axis = 0; axis < 3; ++axis) {
        xyz[3 * i + axis] = static_cast<float>(row[axis] - origin[axis]);
      }
    }
  }
};

struct Samples {
  std::vector<int32_t> rows;
  std::vector<float> distances;  // empty unless they are returned

  explicit Samples(const farpoint_sample_request& request)
      : rows(request.samples, -1), distances(request.return_distances ? request.samples : 0) {}

  // Returns whether it was finished before the deadline.
  bool sample(const Cloud& cloud, const farpoint_sample_request& request, int64_t deadline) {
    FpsTask task = {.values = cloud.xyz.data(),
                    .n = request.points,
                    .columns = 3,
                    .wide = false,
                    .matrix = false,
                    .m = request.samples,
                    .start = request.start,
                    .indices = rows.data(),
                    .distances = distances.empty() ? nullptr : distances.data(),
                    .radius = request.radius,
                    .deadline = deadline};
    if (!furthest_point_sample(&task, 1, 1)) return false;
    const auto end = std::find(rows.begin(), rows.end(), -1);  // a radius may end it
    rows.erase(end, rows.end());
    if (!distances.empty()) distances.resize(rows.size());
    return true;
  }
};

struct ResponseWriter : Writer {
  bool checksums;

  // Of shape (rows), or (rows, columns).
  void tensor(ResponseField field, DataType type, int64_t rows, int64_t columns, const void* data) {
    const int64_t size = rows * std::max<int64_t>(columns, 1) * (type == kFloat64 ? 8 : 4);
    const int64_t shape = varint_size(rows) + (columns > 0 ? 1 : 0);
    varint(tag(field, kBytes));
    varint(2 + 2 + shape + 1 + varint_size(size) + size + (checksums ? 5 : 0));
    varint(tag(kDataType, kVarint));
    varint(type);
    varint(tag(kShape, kBytes));
    varint(shape);
    varint(rows);
    if (columns > 0) varint(columns);
    varint(tag(kData, kBytes));
    varint(size);
    bytes(data, size);
    if (!checksums) return;
    const int64_t head[] = {static_cast<int64_t>(type), rows, columns};
    const uint32_t crc = crc32c(0, head, (columns > 0 ? 3 : 2) * sizeof head[0]);
    fixed(kCrc32c, crc32c(crc, data, size));
  }

  void lengths(int64_t count) {
    varint(tag(kSampledLengths, kBytes));
    varint(varint_size(count));
    varint(count);
  }

  void timings(double compute_ms, double server_ms) {
    varint(tag(kTimings, kBytes));
    varint(18);  // two numbers of nine bytes
    fixed(kComputeMs, compute_ms);
    fixed(kServerMs, server_ms);
  }
};

// Rows of the cloud as they were sent.
std::vector<uint8_t> gathered(const uint8_t* data, int64_t row_bytes,
                              const std::vector<int32_t>& rows) {
  std::vector<uint8_t> result(rows.size() * row_bytes);
  uint8_t* at = result.data();
  for (const int64_t row : rows) {
    std::memcpy(at, data + row * row_bytes, row_bytes);
    at += row_bytes;
  }
  return result;
}

int64_t answer(const uint8_t* data, farpoint_sample_request& request, double arrived,
               int64_t deadline, uint8_t* response) {
  const Cloud cloud(data, request);
  if (!cloud.is_valid(request)) return 0;
  Samples samples(request);
  const int64_t begun = monotonic_ns();
  if (!samples.sample(cloud, request, deadline)) return 0;
  const double compute_ms = 1e-6 * static_cast<double>(monotonic_ns() - begun);
  const auto count = static_cast<int64_t>(samples.rows.size());
  request.samples = count;
  ResponseWriter writer = {{response}, request.return_checksums != 0};
  writer.tensor(kIndices, kInt32, count, 0, samples.rows.data());
  if (request.return_points) {
    const auto points = gathered(data, request.is_float64 ? 24 : 12, samples.rows);
    writer.tensor(kSampledPoints, request.is_float64 ? kFloat64 : kFloat32, count, 3,
                  points.data());
  }
  if (request.return_distances) {
    writer.tensor(kDistances, kFloat32, count, 0, samples.distances.data());
  }
  if (request.is_float64) writer.tensor(kOrigins, kFloat64, 1, 3, cloud.origin);
  writer.lengths(count);
  writer.timings(compute_ms, 1e3 * (1e-9 * static_cast<double>(monotonic_ns()) - arrived));
  return writer.at - response;
}

}  // namespace
}  // namespace farpoint::cpu::messages

extern "C" int64_t farpoint_answer_sample_request(const uint8_t* message,
                                                  farpoint_sample_request* request, double arrived,
                                                  int64_t budget_ns, uint8_t* response) {
  using farpoint::cpu::monotonic_ns;
  const int64_t begun = monotonic_ns();
  int64_t size = 0;
  try {
    size = farpoint::cpu::messages::answer(message + request->data, *request, arrived,
                                           begun + budget_ns, response);
  } catch (...) {  // the server tries again, and says what is wrong
  }
  request->elapsed_ns = monotonic_ns() - begun;
  return size;
}
