// All CPU kernels with the instruction set FARPOINT_SIMD, the name of a namespace.
#include "cpu/kernels/brute_force/kernels.h"
#include "cpu/kernels/fps/sample.h"
#include "cpu/kernels/neighbors/search.h"

namespace farpoint::cpu::FARPOINT_SIMD {

extern const Backend kBackend;
const Backend kBackend = {sample,
                          {build, destroy, nearest, nearest_to_many, within},
                          brute_force::FARPOINT_SIMD::kNarrow,
                          brute_force::FARPOINT_SIMD::kWide,
                          brute_force::FARPOINT_SIMD::kWideSearches};

}  // namespace farpoint::cpu::FARPOINT_SIMD
