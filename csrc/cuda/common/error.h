// CUDA error codes as text.
#pragma once

#pragma GCC visibility push(default)
namespace farpoint::cuda {

// What a launcher's code means; CUDA forgets the error, so that no later call reports it again.
const char* take_error(int code);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
