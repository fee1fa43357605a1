// Brute-force sampling and searches compiled for the baseline instruction set.
#include <cmath>
#include <cstdint>
#include <cstring>

#define FARPOINT_SIMD plain
#define FARPOINT_VECTOR_BYTES 16
#include "cpu/kernels/brute_force/kernels.h"

const farpoint::cpu::BruteBackend farpoint::cpu::brute_plain =
    farpoint::cpu::brute_force::plain::kBackend;
