// Memory for one call, of which a little is kept for the next call of the same thread.
#pragma once

#include <cstddef>

namespace farpoint::cpu {

struct Memory {
  void* data;
  size_t bytes;  // at least as many as were asked for
};

// On a cache line of its own. The content means nothing.
Memory take_memory(size_t bytes);

// Ends its use. A thread keeps up to four pieces of at most 4 MiB until it ends: a piece that went
// back to the system would be mapped anew, page by page, which takes a fifth of a small sample.
void give_memory(const Memory& memory);

}  // namespace farpoint::cpu
