// All CPU kernels compiled for AVX-512.
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
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define FARPOINT_SIMD avx512
#define FARPOINT_LANES "cpu/kernels/spatial/simd_avx512.h"
#define FARPOINT_VECTOR_BYTES 64

#include "cpu/kernels/brute_force/kernels.h"
#include "cpu/kernels/fps/sample.h"
#include "cpu/kernels/neighbors/search.h"

namespace farpoint::cpu {

const FpsBackend fps_avx512 = {"avx512", avx512::sample};
const SearchBackend search_avx512 = {"avx512",        avx512::build,           avx512::destroy,
                                     avx512::nearest, avx512::nearest_to_many, avx512::within};
const BruteBackend brute_avx512 = brute_force::avx512::kBackend;

}  // namespace farpoint::cpu
#endif
