// A serialized farpoint.v1.SampleRequest answered as a serialized SampleResponse, without protobuf
// and Python, whose objects cost more than sampling a small cloud. It serves the common request:
// one finite cloud of float32, farthest points, and no more than rows, points and distances in the
// answer. All else, and all that is wrong, is left to the server's Python, which has every rule.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

struct farpoint_sample_request {
  int64_t points;
  int64_t samples;
  int64_t start;
  int64_t data;            // offset of the coordinates in the message
  int64_t response_bytes;  // at most
  int32_t return_points;
  int32_t return_distances;
};

// Reads a message; 0 if it is not the common request.
int32_t farpoint_read_sample_request(const uint8_t* message, int64_t size,
                                     farpoint_sample_request* request);

// Samples on the calling thread and writes the response of at most `response_bytes`.
//
// message, request: of farpoint_read_sample_request.
// arrived: of the call, in seconds of CLOCK_MONOTONIC.
//
// Returns the size of the response; 0 if a coordinate is not finite, or it failed.
int64_t farpoint_answer_sample_request(const uint8_t* message,
                                       const farpoint_sample_request* request, double arrived,
                                       uint8_t* response);
}
#pragma GCC visibility pop
