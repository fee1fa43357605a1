// Answers a SampleRequest that was read, with a SampleResponse.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "cpu/kernels/fps/furthest_point_sample.h"
#include "cpu/kernels/messages/sample_request.h"
#include "cpu/kernels/messages/wire.h"
#include "cpu/kernels/rows.h"
#include "cpu/kernels/stop.h"

namespace farpoint::cpu::messages {
namespace {

// Has its highest bit set where these bits of a float32 are infinite or NaN. Loops over integers
// become vectors at any level of SIMD; those over std::isfinite take three times as long.
uint32_t not_finite(float value) {
  return 0x7F7F'FFFF - (std::bit_cast<uint32_t>(value) & 0x7FFF'FFFF);
}

// Writes coordinates, and whether all of them are finite, in one pass through memory.
bool copy_cloud(const uint8_t* data, int64_t values, float* __restrict xyz) {
  uint32_t seen = 0;
  for (int64_t i = 0; i < values; ++i) {
    std::memcpy(xyz + i, data + i * sizeof *xyz, sizeof *xyz);
    seen |= not_finite(xyz[i]);
  }
  return seen >> 31 == 0;
}

// The same of float64, from its first finite point on as the origin.
bool narrow_cloud(const uint8_t* data, int64_t points, double* origin, float* __restrict xyz) {
  double row[3];
  for (int64_t i = 0; i < points; ++i) {
    std::memcpy(row, data + i * sizeof row, sizeof row);
    if (!is_finite(row)) continue;
    std::memcpy(origin, row, sizeof row);
    break;
  }
  uint32_t seen = 0;
  for (int64_t i = 0; i < points; ++i) {
    std::memcpy(row, data + i * sizeof row, sizeof row);
    for (int axis = 0; axis < 3; ++axis) {
      xyz[3 * i + axis] = static_cast<float>(row[axis] - origin[axis]);
      seen |= not_finite(xyz[3 * i + axis]);
    }
  }
  return seen >> 31 == 0;
}

void read_cloud(const uint8_t* message, farpoint_sample_request& request, float* xyz) {
  const uint8_t* const data = message + request.data;
  request.is_valid = request.is_float64 ? narrow_cloud(data, request.points, request.origin, xyz)
                                        : copy_cloud(data, 3 * request.points, xyz);
  if (request.is_valid || !request.ignore_nonfinite) return;
  const int64_t needed = request.radius < 0 ? request.samples : 1;
  request.is_valid = static_cast<int64_t>(finite_rows(xyz, request.points).size()) >= needed;
}

struct Samples {
  std::vector<int32_t> rows;
  std::vector<float> distances;  // empty unless they are returned

  explicit Samples(const farpoint_sample_request& request)
      : rows(request.samples, -1), distances(request.return_distances ? request.samples : 0) {}

  // Returns whether it was finished before the deadline.
  bool sample(const float* xyz, const farpoint_sample_request& request, int64_t deadline) {
    FpsTask task = {.values = xyz,
                    .n = request.points,
                    .columns = 3,
                    .wide = false,
                    .m = request.samples,
                    .start = request.start,
                    .indices = rows.data(),
                    .distances = distances.empty() ? nullptr : distances.data(),
                    .radius = request.radius,
                    .deadline = deadline};
    return furthest_point_sample(&task, 1, 1);
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

  void timings(double queue_ms, double compute_ms, double server_ms) {
    varint(tag(kTimings, kBytes));
    varint(27);  // three numbers of nine bytes
    fixed(kQueueMs, queue_ms);
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

struct Times {
  double queue_ms, compute_ms, arrived;
};

// The response to a request with these rows of its cloud; -1 after the last one, if a radius ended
// it.
int64_t write(const uint8_t* message, farpoint_sample_request& request, std::vector<int32_t> rows,
              const float* distances, const Times& times, uint8_t* response) {
  rows.erase(std::find(rows.begin(), rows.end(), -1), rows.end());
  const auto count = static_cast<int64_t>(rows.size());
  request.samples = count;
  ResponseWriter writer = {{response, response + request.response_bytes},
                           request.return_checksums != 0};
  writer.tensor(kIndices, kInt32, count, 0, rows.data());
  if (request.return_points) {
    const auto points = gathered(message + request.data, request.is_float64 ? 24 : 12, rows);
    writer.tensor(kSampledPoints, request.is_float64 ? kFloat64 : kFloat32, count, 3,
                  points.data());
  }
  if (request.return_distances) writer.tensor(kDistances, kFloat32, count, 0, distances);
  if (request.is_float64) writer.tensor(kOrigins, kFloat64, 1, 3, request.origin);
  writer.lengths(count);
  const double server_ms = 1e3 * (1e-9 * static_cast<double>(monotonic_ns()) - times.arrived);
  writer.timings(times.queue_ms, times.compute_ms, server_ms);
  return writer.full ? 0 : writer.at - response;
}

int64_t answer(const uint8_t* message, farpoint_sample_request& request, double arrived,
               int64_t deadline, uint8_t* response) {
  std::vector<float> xyz(3 * request.points);
  read_cloud(message, request, xyz.data());
  if (!request.is_valid) return 0;
  Samples samples(request);
  const int64_t begun = monotonic_ns();
  if (!samples.sample(xyz.data(), request, deadline)) return 0;
  const double compute_ms = 1e-6 * static_cast<double>(monotonic_ns() - begun);
  return write(message, request, std::move(samples.rows), samples.distances.data(),
               {0, compute_ms, arrived}, response);
}

}  // namespace
}  // namespace farpoint::cpu::messages

extern "C" int64_t farpoint_answer_sample_request(const uint8_t* message,
                                                  farpoint_sample_request* request, double arrived,
                                                  int64_t budget_ns, uint8_t* response) {
  const int64_t deadline = farpoint::cpu::monotonic_ns() + budget_ns;
  try {
    return farpoint::cpu::messages::answer(message, *request, arrived, deadline, response);
  } catch (...) {  // the server tries again, and says what is wrong
    return 0;
  }
}

extern "C" void farpoint_read_clouds(const uint8_t* const* messages,
                                     farpoint_sample_request* const* requests, int64_t count,
                                     const farpoint_clouds* clouds) {
  clouds->offsets[0] = clouds->sample_offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    farpoint_sample_request& request = *requests[i];
    const int64_t begin = clouds->offsets[i];
    farpoint::cpu::messages::read_cloud(messages[i], request, clouds->xyz + 3 * begin);
    clouds->offsets[i + 1] = begin + request.points;
    clouds->sample_offsets[i + 1] = clouds->sample_offsets[i] + request.samples;
    clouds->starts[i] = request.start;
    if (clouds->radii) clouds->radii[i] = request.radius;
  }
}

extern "C" int64_t farpoint_write_sample_response(const uint8_t* message,
                                                  farpoint_sample_request* request,
                                                  const int32_t* rows, const float* distances,
                                                  int64_t first_row, double queue_ms,
                                                  double compute_ms, double arrived,
                                                  uint8_t* response) {
  std::vector<int32_t> own(rows, rows + request->samples);
  for (int32_t& row : own) row = row < 0 ? row : static_cast<int32_t>(row - first_row);
  return farpoint::cpu::messages::write(message, *request, std::move(own), distances,
                                        {queue_ms, compute_ms, arrived}, response);
}
