// CUDA error codes as text.
#include <cuda_runtime.h>

#include "cuda/common/error.h"

namespace farpoint::cuda {

const char* take_error(int code) {
  cudaGetLastError();
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

}  // namespace farpoint::cuda
