// Neighbor searches compiled for AVX2.
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
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx2
#define FARPOINT_LANES "cpu/kernels/spatial/simd_avx2.h"

#include "cpu/kernels/neighbors/search.h"

const farpoint::cpu::SearchBackend farpoint::cpu::search_avx2 = {
    "avx2", avx2::build, avx2::destroy, avx2::nearest, avx2::nearest_group, avx2::within};
#endif
