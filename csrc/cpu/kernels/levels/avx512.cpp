#include "cpu/kernels/levels/backend.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx512
#define FARPOINT_LANES "cpu/kernels/spatial/simd_avx512.h"
#define FARPOINT_VECTOR_BYTES 64
#include "cpu/kernels/levels/level.h"
#endif
