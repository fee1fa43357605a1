// Numbers of fields and enumerators of farpoint.v1 that are read or written in C++.
#pragma once

#include <cstdint>

namespace farpoint::cpu::messages {

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

}  // namespace farpoint::cpu::messages
