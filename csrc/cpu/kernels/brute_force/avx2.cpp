// Brute-force sampling and searches compiled for AVX2.
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx2
#define FARPOINT_VECTOR_BYTES 32
#include "cpu/kernels/brute_force/kernels.h"

const farpoint::cpu::BruteBackend farpoint::cpu::brute_avx2 =
    farpoint::cpu::brute_force::avx2::kBackend;
#endif
