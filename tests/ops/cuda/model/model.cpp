// C interface of the emulated kernels for ctypes: the launchers of csrc/cuda on the CPU.
#include <cuda_runtime.h>

#include <cstring>
#include <utility>
#include <vector>

#include "cuda/fps/fps.h"
#include "cuda/gather/gather.h"
#include "cuda/neighbors/neighbors.h"
#include "machine.h"

using namespace farpoint::cuda;

namespace {

// What the torch side does with a transpose of torch: rows (batch, channels, points) whose channels
// stand together, from the start of a sector on.
template <typename Value>
class Turned {
 public:
  explicit Turned(const GatherShape& shape)
      : shape_(shape),
        pitch_(vector_pitch(shape.channels)),
        memory_(shape.batch * shape.points * pitch_ * sizeof(Value) / sizeof(Sector) + 1) {}

  Value* data() { return reinterpret_cast<Value*>(memory_.data()); }
  void take(const Value* rows) {
    each([&](int64_t place, int64_t element) { data()[place] = rows[element]; });
  }
  void give(Value* rows) {
    each([&](int64_t place, int64_t element) { rows[element] = data()[place]; });
  }

 private:
  struct alignas(32) Sector {
    unsigned char bytes[32];
  };

  template <typename Move>
  void each(Move move) {
    for (int64_t row = 0; row < shape_.batch * shape_.channels; ++row) {
      const int64_t b = row / shape_.channels, c = row % shape_.channels;
      for (int64_t i = 0; i < shape_.points; ++i) {
        move((b * shape_.points + i) * pitch_ + c, row * shape_.points + i);
      }
    }
  }

  GatherShape shape_;
  int64_t pitch_;
  std::vector<Sector> memory_;
};

template <typename Value>
int scatter_turned(const void* values, const void* idx, Weights weights, void* out,
                   const GatherShape& shape, RowTypes types) {
  Turned<Value> sums(shape);
  const int code = scatter_vectors(values, idx, weights, sums.data(), shape, types, nullptr);
  sums.give(static_cast<Value*>(out));
  return code;
}

template <typename Value>
int gather_turned(const void* features, const void* idx, Weights weights, void* out,
                  const GatherShape& shape, RowTypes types) {
  Turned<Value> vectors(shape);
  vectors.take(static_cast<const Value*>(features));
  return gather_vectors(vectors.data(), idx, weights, out, shape, types, nullptr);
}

}  // namespace

extern "C" {

const char* model_failure() { return model::failure(); }

// Leaves that the tree kernel has gone down to; from 0 again.
int64_t model_leaves_visited() { return std::exchange(model::leaves, 0); }

void model_processors(int count) { model::set_processors(count); }

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
                   int partitions, unsigned seed) {
  model::reset();
  model::seed(seed);
  const TreeShape shape = {warps, levels, in_shared != 0, sorts_in_block != 0, partitions};
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
  shape[4] = plan.tree.partitions;
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

int model_gather_vectors(const void* features, const void* idx, const void* weight, void* out,
                         const GatherShape* shape, int64_t corners, int wide_value,
                         int wide_index) {
  model::reset();
  const auto run = wide_value ? gather_turned<double> : gather_turned<float>;
  return run(features, idx, {weight, corners}, out, *shape, {wide_value != 0, wide_index != 0});
}

// `method` is a ScatterMethod, or -1 for the one that the rule picks; `out` holds anything before.
int model_scatter(const void* values, const void* idx, const void* weight, void* out,
                  const GatherShape* shape, int64_t corners, int wide_value, int wide_index,
                  int method, unsigned seed) {
  model::reset();
  model::seed(seed);
  const Weights weights = {weight, corners};
  const RowTypes types = {wide_value != 0, wide_index != 0};
  const auto rule = scatter_method(*shape, weights, types.wide_value, 0);
  const auto picked = method < 0 ? rule : static_cast<ScatterMethod>(method);
  if (!scatter_fits(picked, *shape, weights, types.wide_value, 0)) return -1;
  if (picked == ScatterMethod::kVectors) {
    const auto run = types.wide_value ? scatter_turned<double> : scatter_turned<float>;
    return run(values, idx, weights, out, *shape, types);
  }
  const auto run = picked == ScatterMethod::kRows ? scatter_rows : scatter_in_order;
  return run(values, idx, weights, out, *shape, types, 0, nullptr);
}

int64_t model_index_bytes(const SearchBatch* batch) {
  return static_cast<int64_t>(index_bytes(*batch, 0));
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
  const RowTypes types = {wide_value != 0, wide_index != 0};
  if (!interpolate_fits(*shape, types, 0)) return -1;
  return interpolate(features, idx, weight, out, *shape, types, 0, nullptr);
}

int model_interpolate_dot(const void* values, const void* features, const void* idx, void* out,
                          const InterpolateShape* shape, int wide_value, int wide_index) {
  model::reset();
  return interpolate_dot(values, features, idx, out, *shape, {wide_value != 0, wide_index != 0}, 0,
                         nullptr);
}
}
