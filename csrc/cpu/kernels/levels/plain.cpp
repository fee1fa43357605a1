// All CPU kernels compiled for the baseline instruction set.
// Headers of the library come before the target: its functions belong to every level.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#define FARPOINT_SIMD plain
#define FARPOINT_LANES "cpu/kernels/spatial/simd_plain.h"
#define FARPOINT_VECTOR_BYTES 16

#include "cpu/kernels/brute_force/kernels.h"
#include "cpu/kernels/fps/sample.h"
#include "cpu/kernels/neighbors/search.h"

namespace farpoint::cpu {

const FpsBackend fps_plain = {"plain", plain::sample};
const SearchBackend search_plain = {"plain",        plain::build,           plain::destroy,
                                    plain::nearest, plain::nearest_to_many, plain::within};
const BruteBackend brute_plain = brute_force::plain::kBackend;

}  // namespace farpoint::cpu
