// A serialized farpoint.v1.SampleRequest answered as a serialized SampleResponse, without protobuf
// and Python, whose objects cost more than sampling a small cloud. It serves what our clients send
// for one cloud of float32 or float64: farthest points, to a radius or not. All else, and all that
// is wrong, is left to the server's Python, which has every rule.
//
// A CPU samples a small cloud in the call that answers it; a batch for another device is read into
// one array, sampled there, and each of its requests is answered from the rows.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

struct farpoint_sample_request {
  int64_t points;
  int64_t samples;  // with a radius at most; once it is answered, how many there are
  int64_t start;
  int64_t data;            // offset of the coordinates in the message
  int64_t response_bytes;  // at most
  double origin[3];        // of float64, once its cloud is read: the first finite point, or zero
  float radius;            // negative for none
  int32_t is_float64;
  int32_t ignore_nonfinite;
  int32_t return_points;
  int32_t return_distances;
  int32_t return_checksums;
  int32_t is_valid;  // once its cloud is read: whether enough of its rows are finite
};

// Reads a message; 0 if it is left to Python.
//
// is_streamed: whether it is a SampleStreamRequest, which has the request in it.
int32_t farpoint_read_sample_request(const uint8_t* message, int64_t size, int32_t is_streamed,
                                     farpoint_sample_request* request);

// Samples on the calling thread and writes a SampleResponse of at most `response_bytes`.
//
// message, request: of farpoint_read_sample_request.
// arrived: of the call, in seconds of CLOCK_MONOTONIC.
// budget_ns: nanoseconds after which it is given up.
//
// Returns the size of the response; 0 if it was given up, for the time or for lack of memory, of
// room in the response, or of finite coordinates.
int64_t farpoint_answer_sample_request(const uint8_t* message, farpoint_sample_request* request,
                                       double arrived, int64_t budget_ns, uint8_t* response);

// The arrays of a batch, as the kernels of a device want them.
struct farpoint_clouds {
  float* xyz;               // the clouds of all messages
  int64_t* offsets;         // (count + 1)
  int64_t* sample_offsets;  // (count + 1)
  int64_t* starts;          // (count)
  float* radii;             // (count), or null
};

// Writes the arrays of some messages, and says in each request whether it is valid.
void farpoint_read_clouds(const uint8_t* const* messages, farpoint_sample_request* const* requests,
                          int64_t count, const farpoint_clouds* clouds);

// Writes a SampleResponse of at most `response_bytes` from the samples of a cloud that was read.
//
// rows: of the array in which the cloud begins with `first_row`; -1 after its last one.
// distances: null if they are not returned.
// queue_ms, compute_ms: what the response says of them.
//
// Returns its size; 0 for lack of room.
int64_t farpoint_write_sample_response(const uint8_t* message, farpoint_sample_request* request,
                                       const int32_t* rows, const float* distances,
                                       int64_t first_row, double queue_ms, double compute_ms,
                                       double arrived, uint8_t* response);
}
#pragma GCC visibility pop
