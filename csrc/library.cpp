// Schemas of all ops (TORCH_LIBRARY): the table of contents of csrc/.
//
// B clouds, N points each, M samples, C channels. `offsets` and `sample_offsets` are int64 (B +
// 1,). Everything that decides a launch is a host number (total_samples, max_points, max_samples),
// so that no backend has to wait for a device to read one.

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/kernels/levels/backend.h"

namespace {

namespace cpu = farpoint::cpu;

std::string cpu_simd(const std::optional<c10::string_view> limit) {
  try {
    if (limit) cpu::limit_simd(std::string(*limit));
    return cpu::name_of(cpu::simd_level());
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

}  // namespace

TORCH_LIBRARY(farpoint, m) {
  m.set_python_module("farpoint_ops._fakes");
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};

  // (B, N, D), D from 1 to 1024 -> int32 (B, m), distances (B, m), float64 for float64 coordinates
  // and float32 for others; they are empty (0,) unless asked for. With radius (B,), in the type of
  // the distances, a cloud ends at the first sample whose distance is at most that: the places left
  // hold index -1 and distance 0.
  m.def(
      "furthest_point_sample(Tensor xyz, SymInt m, Tensor? start=None, Tensor? lengths=None, "
      "bool return_distances=False, Tensor? radius=None) -> (Tensor, Tensor)",
      tags);
  // (sum N, D) -> int32 (total_samples,), distances (total_samples,); indices are rows of `xyz`.
  m.def(
      "furthest_point_sample_ragged(Tensor xyz, Tensor offsets, Tensor sample_offsets, "
      "Tensor? start, SymInt total_samples, SymInt max_points, SymInt max_samples, "
      "bool return_distances=False, Tensor? radius=None) -> (Tensor, Tensor)",
      tags);
  // For servers, on the CPU alone: as above, with an int32 flag (B,) for each cloud. A cloud whose
  // flag becomes nonzero while the op runs is given up within one sample, and its outputs are then
  // undefined; the other clouds are finished. A cloud whose radius is negative has none. A call
  // that is not done after `budget_ns`, unless that is 0, is given up, and its outputs are empty.
  m.def(
      "_furthest_point_sample_cancellable(Tensor xyz, Tensor offsets, Tensor sample_offsets, "
      "Tensor? start, int total_samples, Tensor cancelled, bool return_distances=False, "
      "Tensor? radius=None, int budget_ns=0) -> (Tensor, Tensor)");

  // (B, C, N), (B, M) -> (B, C, M). Each of these two is the other's derivative.
  m.def("gather_points(Tensor features, Tensor idx) -> Tensor", tags);
  // (B, C, M), (B, M) -> (B, C, n): rows that share an index are added.
  m.def("scatter_points(Tensor values, Tensor idx, SymInt n) -> Tensor", tags);
  // (B, C, N), (B, M, K) -> (B, C, M, K). Its derivative is a scatter of flattened indices.
  m.def("group_points(Tensor features, Tensor idx) -> Tensor", tags);

  // (B, N, 3), (B, M, 3) -> squared distances (B, M, k), int32 (B, M, k): nearest first, then the
  // nearest row again at an infinite distance. What has a gradient comes first, since opcheck adds
  // all outputs up in the type of the first.
  m.def("knn(Tensor xyz, Tensor queries, SymInt k, Tensor? lengths=None) -> (Tensor, Tensor)",
        tags);
  // (B, N, 3), (B, M, 3) -> int32 (B, M, k), int32 (B, M): the lowest rows nearer than radius, and
  // not nearer than min_radius unless they coincide with the center. Or shells (B, 2), in the type
  // of the distances, have the inner and the outer radius of each cloud, and the numbers are
  // unused.
  m.def(
      "ball_query(Tensor xyz, Tensor centers, float radius, SymInt k, Tensor? lengths=None, "
      "float min_radius=0.0, Tensor? shells=None) -> (Tensor, Tensor)",
      tags);
  // (B, N, 3), (B, M, 3) -> int32 (B, N), squared distances (B, N), of the type as above; -1 and
  // inf where there is no sample.
  m.def(
      "nearest_sample(Tensor xyz, Tensor samples, Tensor? lengths=None, "
      "Tensor? sample_lengths=None) -> (Tensor, Tensor)",
      tags);
  // (B, N) -> int32 (B, m): how often each of 0..m-1 occurs; -1 is not counted.
  m.def("count_points(Tensor assignment, SymInt m) -> Tensor", tags);

  // Three products of values v (B, C, N), features f (B, C, M) and weights w (B, N, K), in which
  // idx (B, N, K) names columns of f. Each one's derivatives are the other two.
  // -> (B, C, N): sum over k of w[n, k] f[c, idx[n, k]].
  m.def("interpolate(Tensor features, Tensor idx, Tensor weight) -> Tensor", tags);
  // -> (B, C, m): v[c, n] w[n, k] added to column idx[n, k].
  m.def("interpolate_scatter(Tensor values, Tensor idx, Tensor weight, SymInt m) -> Tensor", tags);
  // -> (B, N, K): sum over c of v[c, n] f[c, idx[n, k]].
  m.def("interpolate_dot(Tensor values, Tensor features, Tensor idx) -> Tensor", tags);

  // For tests and benchmarks: the instruction set of the CPU kernels ("plain", "avx2", "avx512"),
  // after limiting it where a name is given; "" lifts the limit. Results never depend on it.
  m.def("_cpu_simd(str? limit=None) -> str",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(cpu_simd)));
}
