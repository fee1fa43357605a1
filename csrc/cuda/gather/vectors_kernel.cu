// Gather and scatter-add kernels for rows too long for shared memory.
//
// 1. Channel-first, the 32 values that a warp gathers, or adds up, lie in 32 sectors: each moves a
//    sector for 4 bytes.
// 2. Point by point, the channels of a point stand together. A block turns a tile of samples and
//    channels in shared memory: one side of it is channel-first and coalesced, on the other a
//    thread reads, or adds with one vector reduction, four channels of a sample, and neighboring
//    threads the next four: whole sectors.
// The caller turns the features before, or the sums behind: one more pass over them.
#include "cuda/gather/rows.cuh"
#include "cuda/gather/vectors.h"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQuadBits = 2, kQuad = 1 << kQuadBits;  // channels of a vector
constexpr int kTileBits = 10;
constexpr int kTile = 1 << kTileBits;  // values
constexpr int kMostBits = 5;           // 32 channels: 128 bytes of a point

// Of a tile: 2^channel_bits channels of the rest samples. The rows of one in shared memory are a
// word longer, so that a column is free of bank conflicts.
struct TileShape {
  int channel_bits;

  __host__ __device__ int channels() const { return 1 << channel_bits; }
  __host__ __device__ int samples() const { return kTile >> channel_bits; }
  __host__ __device__ int elements() const { return channels() * (samples() + 1); }
  __device__ int at(int channel, int sample) const { return channel * (samples() + 1) + sample; }
};

// What a block does: tiles of all channels of some points of a cloud.
struct Part {
  int64_t b, first;  // point
  int64_t points;    // of the cloud
};

template <typename Value>
__device__ Part part_of(const GatherShape& shape, const WeightsOf<Value>& weights, TileShape tile) {
  const int64_t points = shape.samples / weights.corners;
  const int64_t tiles = ceil_div(points, tile.samples());
  return {blockIdx.x / tiles, blockIdx.x % tiles * tile.samples(), points};
}

// Runs move(place in the tile, place in a cloud's rows) for what exists of a tile, coalesced.
template <typename Move>
__device__ void for_rows(TileShape tile, const Part& part, int64_t channel, int64_t channels,
                         Move move) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
    const int c = i >> (kTileBits - tile.channel_bits), s = i & (tile.samples() - 1);
    const int64_t n = part.first + s;
    if (channel + c < channels && n < part.points) {
      move(tile.at(c, s), (channel + c) * part.points + n);
    }
  }
}

// Runs visit(sample, channel) for so many channels at once, neighboring threads taking the next.
template <int kWidth, typename Visit>
__device__ void for_vectors(TileShape tile, const Part& part, int64_t channels_left, Visit visit) {
  const int bits = tile.channel_bits - (kWidth == kQuad ? kQuadBits : 0);
  for (int i = static_cast<int>(threadIdx.x); i < kTile / kWidth; i += kThreads) {
    const int sample = i >> bits, channel = (i & ((1 << bits) - 1)) * kWidth;
    if (part.first + sample < part.points && channel < channels_left) visit(sample, channel);
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads, 4)
    read_vectors(const Value* features, const Index* idx, WeightsOf<Value> weights, Value* out,
                 GatherShape shape, int64_t pitch, TileShape tile) {
  Value* const turned = &shared_as<Value>();
  const Part part = part_of(shape, weights, tile);
  const Value* const source = features + part.b * shape.points * pitch;
  Value* const target = out + part.b * shape.channels * part.points;
  for (int64_t first = 0; first < shape.channels; first += tile.channels()) {
    for_vectors<kQuad>(tile, part, shape.channels - first, [&](int sample, int channel) {
      const int64_t corner =
          part.b * shape.samples + (part.first + sample) * int64_t{weights.corners};
      Value sums[kQuad] = {};
      for (unsigned k = 0; k < weights.corners; ++k) {
        const int64_t column = checked(idx[corner + k], shape.points);
        const auto v = *reinterpret_cast<const Vector<Value, kQuad>*>(source + column * pitch +
                                                                      first + channel);
#pragma unroll
        for (int w = 0; w < kQuad; ++w) {
          sums[w] = weights.at ? sums[w] + product(weights.at[corner + k], v.at[w]) : v.at[w];
        }
      }
#pragma unroll
      for (int w = 0; w < kQuad; ++w) turned[tile.at(channel + w, sample)] = sums[w];
    });
    __syncthreads();
    for_rows(tile, part, first, shape.channels,
             [&](int from, int64_t to) { target[to] = turned[from]; });
    __syncthreads();
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads, 4)
    add_vectors(const Value* values, const Index* idx, WeightsOf<Value> weights, Value* sums,
                GatherShape shape, int64_t pitch, TileShape tile) {
  constexpr int kWidth = kAddedAtOnce<Value>;
  Value* const turned = &shared_as<Value>();
  const Part part = part_of(shape, weights, tile);
  const Value* const source = values + part.b * shape.channels * part.points;
  Value* const target = sums + part.b * shape.points * pitch;
  for (int64_t first = 0; first < shape.channels; first += tile.channels()) {
    for_rows(tile, part, first, shape.channels,
             [&](int to, int64_t from) { turned[to] = source[from]; });
    __syncthreads();
    for_vectors<kWidth>(tile, part, shape.channels - first, [&](int sample, int channel) {
      const int64_t corner =
          part.b * shape.samples + (part.first + sample) * int64_t{weights.corners};
      for (unsigned k = 0; k < weights.corners; ++k) {
        const int64_t column = checked(idx[corner + k], shape.points);
        Value given[kWidth];
#pragma unroll
        for (int w = 0; w < kWidth; ++w) {
          const Value value = turned[tile.at(channel + w, sample)];
          given[w] = weights.at ? product(value, weights.at[corner + k]) : value;
        }
        add_at_once(target + column * pitch + first + channel, given);
      }
    });
    __syncthreads();
  }
}

template <typename Value, typename Index>
int run(void (*kernel)(const Value*, const Index*, WeightsOf<Value>, Value*, GatherShape, int64_t,
                       TileShape),
        const void* from, const void* idx, Weights weights, void* to, const GatherShape& shape,
        void* stream) {
  if (shape.batch * shape.channels * shape.samples == 0) return cudaSuccess;
  TileShape tile = {kQuadBits};
  while (tile.channel_bits < kMostBits && tile.channels() < shape.channels) ++tile.channel_bits;
  const int64_t tiles = ceil_div(shape.samples / weights.corners, tile.samples());
  const LaunchShape launch_shape = {static_cast<unsigned>(shape.batch * tiles), kThreads,
                                    tile.elements() * sizeof(Value)};
  return launch(kernel, launch_shape, stream, static_cast<const Value*>(from),
                static_cast<const Index*>(idx), WeightsOf<Value>(weights), static_cast<Value*>(to),
                shape, vector_pitch(shape.channels), tile);
}

}  // namespace

int gather_vectors(const void* features, const void* idx, Weights weights, void* out,
                   const GatherShape& shape, RowTypes types, void* stream) {
  return with_types(types, [&](auto value, auto index) {
    return run(read_vectors<decltype(value), decltype(index)>, features, idx, weights, out, shape,
               stream);
  });
}

int scatter_vectors(const void* values, const void* idx, Weights weights, void* sums,
                    const GatherShape& shape, RowTypes types, void* stream) {
  return with_types(types, [&](auto value, auto index) {
    return run(add_vectors<decltype(value), decltype(index)>, values, idx, weights, sums, shape,
               stream);
  });
}

}  // namespace farpoint::cuda
