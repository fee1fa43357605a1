// Thread-local cache of scratch buffers between calls.
#pragma once

#include <cstddef>

namespace farpoint::cpu {

struct Buffer {
  void* data;
  size_t bytes;  // at least as many as were asked for
};

// On a cache line of its own. The content means nothing.
Buffer acquire_buffer(size_t bytes);

// Ends its use. A thread keeps up to four buffers of at most 4 MiB until it ends: a buffer that
// went back to the system would be mapped anew, page by page, which takes a fifth of a small
// sample.
void release_buffer(const Buffer& buffer);

}  // namespace farpoint::cpu
