// Brute-force sampling and searches compiled for AVX-512.
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx512
#define FARPOINT_VECTOR_BYTES 64
#include "cpu/kernels/brute_force/kernels.h"

const farpoint::cpu::BruteBackend farpoint::cpu::brute_avx512 =
    farpoint::cpu::brute_force::avx512::kBackend;
#endif
