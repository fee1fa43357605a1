#include "cpu/kernels/levels/backend.h"

#define FARPOINT_SIMD plain
#define FARPOINT_LANES "cpu/kernels/spatial/simd_plain.h"
#define FARPOINT_VECTOR_BYTES 16
#include "cpu/kernels/levels/level.h"
