// Neighbor searches compiled for the baseline instruction set.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#define FARPOINT_SIMD plain
#define FARPOINT_LANES "cpu/kernels/spatial/simd_plain.h"

#include "cpu/kernels/neighbors/search.h"

const farpoint::cpu::SearchBackend farpoint::cpu::search_plain = {
    "plain", plain::build, plain::destroy, plain::nearest, plain::nearest_group, plain::within};
