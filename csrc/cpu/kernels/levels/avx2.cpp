// All CPU kernels compiled for AVX2.
// Headers of the library come before the target: its functions belong to every level.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx2
#define FARPOINT_LANES "cpu/kernels/spatial/simd_avx2.h"
#define FARPOINT_VECTOR_BYTES 32

#include "cpu/kernels/brute_force/kernels.h"
#include "cpu/kernels/fps/sample.h"
#include "cpu/kernels/neighbors/search.h"

namespace farpoint::cpu {

const FpsBackend fps_avx2 = {"avx2", avx2::sample};
const SearchBackend search_avx2 = {"avx2",        avx2::build,           avx2::destroy,
                                   avx2::nearest, avx2::nearest_to_many, avx2::within};
const BruteBackend brute_avx2 = brute_force::avx2::kBackend;

}  // namespace farpoint::cpu
#endif
