#include "cpu/kernels/levels/backend.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx2
#define FARPOINT_LANES "cpu/kernels/spatial/simd_avx2.h"
#define FARPOINT_VECTOR_BYTES 32
#include "cpu/kernels/levels/level.h"
#endif
