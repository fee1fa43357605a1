// Farthest point sampling compiled for the baseline instruction set.
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
#include "cpu/kernels/fps/sample.h"

const farpoint::cpu::FpsBackend farpoint::cpu::fps_plain = {"plain", plain::sample};
