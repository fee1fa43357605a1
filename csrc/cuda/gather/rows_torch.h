// What the torch bindings of gather, scatter and interpolate share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <optional>

#include "cuda/gather/gather.h"

namespace farpoint {

// The halves are summed in float32 and rounded once.
inline at::Tensor widened(const at::Tensor& tensor) {
  return tensor.to(tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).contiguous();
}

inline cuda::RowTypes row_types(const at::Tensor& values, const at::Tensor& idx) {
  return {values.element_size() == 8, idx.scalar_type() == at::kLong};
}

// (B, C, N) -> (B, N, the pitch of C); what fills up a point's last vector is anything.
inline at::Tensor turned(const at::Tensor& rows) {
  auto out =
      at::empty({rows.size(0), rows.size(2), cuda::vector_pitch(rows.size(1))}, rows.options());
  out.narrow(2, 0, rows.size(1)).copy_(rows.transpose(1, 2));
  return out;
}

// (B, C, N) of which every column of `idx` (B, N, K) takes its part, `weight` (B, N, K) of it or,
// if that is undefined, all -> sums (B, C, columns). Contiguous float32 or float64. By the method
// given, else in the order of the samples when torch is asked for deterministic algorithms.
at::Tensor add_samples(const char* op, const at::Tensor& values, const at::Tensor& idx,
                       const at::Tensor& weight, int64_t columns,
                       std::optional<cuda::ScatterMethod> method = {});

}  // namespace farpoint
