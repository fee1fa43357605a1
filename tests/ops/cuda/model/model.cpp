// C interface of the emulated kernels for ctypes: the launchers of csrc/cuda on the CPU.
#include <cuda_runtime.h>

#include <cstring>
#include <utility>
#include <vector>

#include "cuda/fps/brute_force.h"
#include "cuda/fps/fps.h"
#include "cuda/gather/gather.h"
#include "cuda/gather/scatter.h"
#include "cuda/interpolate/interpolate.h"
#include "cuda/neighbors/neighbors.h"
#include "machine.h"
#include "ptx/traffic.h"

using namespace farpoint::cuda;

namespace {

struct alignas(32) Sector {
  float at[8];
};

// What the torch side does with a transpose of torch.
int scatter_turned(const float* values, const void* idx, float* out, const GatherShape& shape,
                   bool wide_index) {
  const int64_t pitch = scatter_pitch(shape.channels);
  std::vector<Sector> sums(shape.batch * shape.points * pitch / 8 + 1, Sector{});
  float* const sum = sums.data()->at;
  const int code = scatter_vectors(values, idx, sum, shape, wide_index, nullptr);
  for (int64_t row = 0; row < shape.batch * shape.channels; ++row) {
    const int64_t b = row / shape.channels, c = row % shape.channels;
    for (int64_t i = 0; i < shape.points; ++i) {
      out[row * shape.points + i] = sum[(b * shape.points + i) * pitch + c];
    }
  }
  return code;
}

}  // namespace

extern "C" {

const char* model_failure() { return model::failure(); }

// What kernels have tallied of a kind of work; from 0 again.
int64_t model_work(int kind) { return std::exchange(model::work[kind], 0); }

void model_processors(int count) { model::set_processors(count); }

// Memory traffic since the last call, of kernels whose translation counts it.
void model_traffic(model::traffic::Totals* totals) { *totals = model::traffic::take(); }

int model_fps(const FpsBatch* batch, int method, unsigned seed) {
  model::reset();
  model::seed(seed);
  const FpsPlan plan = fps_plan(*batch, static_cast<FpsMethod>(method), 0);
  std::vector<unsigned char> scratch(plan.scratch_bytes + 16, 0xcd);
  if (plan.method != static_cast<FpsMethod>(method) && method != 0) return -1;
  return fps(*batch, plan, scratch.data(), 0, nullptr);
}

// The tree kernel in a shape that the rule need not pick.
int model_fps_tree(const FpsBatch* batch, int warps, int levels, int in_shared, int sorts_in_block,
                   int parts, unsigned seed) {
  model::reset();
  model::seed(seed);
  const TreeShape shape = {warps, levels, in_shared != 0, sorts_in_block != 0, parts};
  const FpsPlan plan = fps_plan_tree(*batch, shape, 0);
  std::vector<unsigned char> scratch(plan.scratch_bytes + 16, 0xcd);
  return fps(*batch, plan, scratch.data(), 0, nullptr);
}

// What fps() would do on so many processors; its method comes last in `shape`.
int64_t model_plan(const FpsBatch* batch, int method, int processors, int* shape) {
  const int before = model::processors();
  model::set_processors(processors);
  const FpsPlan plan = fps_plan(*batch, static_cast<FpsMethod>(method), 0);
  model::set_processors(before);
  shape[0] = plan.tree.warps;
  shape[1] = plan.tree.levels;
  shape[2] = plan.tree.in_shared;
  shape[3] = plan.tree.sorts_in_block;
  shape[4] = plan.tree.parts;
  shape[5] = static_cast<int>(plan.method);
  return static_cast<int64_t>(plan.scratch_bytes);
}

int model_fps_brute_force(const BruteFpsBatch* batch) {
  model::reset();
  std::vector<double> nearest(batch->layout.rows, -7.0);
  return fps_brute_force(*batch, nearest.data(), nullptr);
}

int model_ball_query_wide(const SearchBatch* batch, const double* limits, int k, int32_t* rows,
                          int32_t* found) {
  model::reset();
  return ball_query_wide(*batch, limits[0], limits[1], k, rows, found, nullptr);
}

int model_nearest_wide(const SearchBatch* batch, const int64_t* query_lengths, int32_t* rows,
                       double* squared) {
  model::reset();
  return nearest_wide(*batch, query_lengths, rows, squared, nullptr);
}

int model_gather(const void* features, const void* idx, void* out, const GatherShape* shape,
                 int element_bytes, int wide_index) {
  model::reset();
  return gather(features, idx, out, *shape, element_bytes, wide_index != 0, 0, nullptr);
}

// `method` is a ScatterMethod, or -1 for the one that the rule picks; `out` holds anything before.
int model_scatter(const void* values, const void* idx, void* out, const GatherShape* shape,
                  int wide_value, int wide_index, int method, unsigned seed) {
  model::reset();
  model::seed(seed);
  const auto rule = scatter_method(*shape, wide_value != 0, 0);
  const auto picked = method < 0 ? rule : static_cast<ScatterMethod>(method);
  if (!scatter_fits(picked, *shape, wide_value != 0, 0)) return -1;
  const ScatterTypes types = {wide_value != 0, wide_index != 0};
  if (picked == ScatterMethod::kRows)
    return scatter_rows(values, idx, out, *shape, types, 0, nullptr);
  if (picked == ScatterMethod::kAtomic) {
    const int64_t count = shape->batch * shape->channels * shape->points;
    std::memset(out, 0, count * (types.wide_value ? sizeof(double) : sizeof(float)));
    return scatter_add(values, idx, out, *shape, types, nullptr);
  }
  return scatter_turned(static_cast<const float*>(values), idx, static_cast<float*>(out), *shape,
                        types.wide_index);
}

int model_scatter_method(const GatherShape* shape, int wide_value) {
  return static_cast<int>(scatter_method(*shape, wide_value != 0, 0));
}

int model_scatter_sorted(const void* values, const int64_t* order, const int64_t* sorted, void* out,
                         const GatherShape* shape, int wide_value) {
  model::reset();
  return scatter_sorted(values, order, sorted, out, *shape, wide_value != 0, nullptr);
}

int64_t model_index_bytes(const SearchBatch* batch) {
  return static_cast<int64_t>(index_bytes(*batch, 0));
}

int model_wants_index(const SearchBatch* batch, int search) {
  return wants_index(*batch, static_cast<Search>(search), 0);
}

int model_knn(const SearchBatch* batch, int k, int32_t* rows, void* squared, int wide) {
  model::reset();
  return knn(*batch, k, rows, squared, wide != 0, 0, nullptr);
}

int model_ball_query(const SearchBatch* batch, float inner, float limit, int k, int32_t* rows,
                     int32_t* found) {
  model::reset();
  return ball_query(*batch, inner, limit, k, rows, found, 0, nullptr);
}

int model_nearest(const SearchBatch* batch, const int64_t* query_lengths, int32_t* rows,
                  float* squared) {
  model::reset();
  return nearest(*batch, query_lengths, rows, squared, 0, nullptr);
}

int model_count(const void* assignment, int wide_index, int32_t* counts, int64_t batch, int64_t n,
                int64_t m) {
  model::reset();
  return count(assignment, wide_index != 0, counts, batch, n, m, nullptr);
}

int model_interpolate(const void* features, const void* idx, const void* weight, void* out,
                      const InterpolateShape* shape, int wide_value, int wide_index) {
  model::reset();
  return interpolate(features, idx, weight, out, *shape, {wide_value != 0, wide_index != 0}, 0,
                     nullptr);
}

int model_interpolate_scatter(const void* values, const void* idx, const void* weight, void* out,
                              const InterpolateShape* shape, int wide_value, int wide_index) {
  model::reset();
  return interpolate_scatter(values, idx, weight, out, *shape, {wide_value != 0, wide_index != 0},
                             0, nullptr);
}

int model_interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                          const InterpolateShape* shape, int wide_value, int wide_index) {
  model::reset();
  return interpolate_dot(values, features, idx, out, *shape, {wide_value != 0, wide_index != 0}, 0,
                         nullptr);
}
}
