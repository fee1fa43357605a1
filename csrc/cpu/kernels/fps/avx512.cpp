// Farthest point sampling compiled for AVX-512.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx512
#define FARPOINT_LANES "cpu/kernels/spatial/simd_avx512.h"
#include "cpu/kernels/fps/sample.h"

const farpoint::cpu::FpsBackend farpoint::cpu::fps_avx512 = {"avx512", avx512::sample};
#endif
