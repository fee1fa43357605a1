// Tensors for results that are large enough to be a matter of how the system hands out memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <cstdint>

namespace farpoint {

// Fresh memory comes page by page while it is first written. Where pages are of 4 KB that takes
// longer than a gather, so a large result asks for huge ones, within its own memory.
inline at::Tensor empty_output(at::IntArrayRef shape, const at::TensorOptions& options) {
  constexpr uintptr_t kHugePage = 2 << 20;
  constexpr size_t kLargeBytes = 8 << 20;
  auto out = at::empty(shape, options);
#ifdef MADV_HUGEPAGE
  if (out.nbytes() >= kLargeBytes) {
    const auto first = reinterpret_cast<uintptr_t>(out.mutable_data_ptr());
    const uintptr_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
    const uintptr_t end = (first + out.nbytes()) / kHugePage * kHugePage;
    // Advice: where the system does not take it, the result is the same.
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#endif
  return out;
}

}  // namespace farpoint
