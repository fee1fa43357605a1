// Neighbor searches compiled for AVX-512.
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

#include "cpu/kernels/neighbors/search.h"

const farpoint::cpu::SearchBackend farpoint::cpu::search_avx512 = {
    "avx512",        avx512::build,         avx512::destroy,
    avx512::nearest, avx512::nearest_group, avx512::within};
#endif
