// Copies and fills between host, pinned and device memory.
#pragma once

#include "stream.h"

namespace softgpu {

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, Stream* stream);
cudaError_t fill(void* to, int value, size_t bytes, Stream* stream);

}  // namespace softgpu
