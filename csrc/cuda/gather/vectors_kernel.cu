// Gather and scatter-add kernels for rows too long for shared memory.
//
// One side is channel-last, so that the channels of a point are read, or added with one vector
// reduction, four at a time: whole sectors. A block transposes a tile of samples and channels in
// shared memory. The caller transposes the features before, or the sums after.
#include "cuda/gather/gather.h"
#include "cuda/gather/rows.cuh"

namespace farpoint::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQuadBits = 2, kQuad = 1 << kQuadBits;  // channels of a vector
constexpr int kTileBits = 10;
constexpr int kTile = 1 << kTileBits;  // values
constexpr int kMostBits = 5;           // 32 channels: 128 bytes of a point
constexpr int kOfThread = kTile / kThreads;

// A tile has 2^channel_bits channels of the rest samples. Its rows in shared memory are a word
// longer, so that a column is free of bank conflicts.
struct Tiling {
  int channel_bits;
  unsigned tiles;         // of a cloud
  int64_t points, pitch;  // of a cloud on the channel-first side, of the other side

  __host__ __device__ int channels() const { return 1 << channel_bits; }
  __host__ __device__ int samples() const { return kTile >> channel_bits; }
  __host__ __device__ int elements() const { return channels() * (samples() + 1); }
  __device__ int at(int channel, int sample) const { return channel * (samples() + 1) + sample; }
};

// What a block does: tiles of all channels of some points of a cloud.
struct Part {
  int64_t b, first;
  int count;
};

__device__ Part part_of(const Tiling& tile) {
  const int64_t first = int64_t{blockIdx.x % tile.tiles} * tile.samples();
  return {blockIdx.x / tile.tiles, first,
          static_cast<int>(min(tile.points - first, int64_t{tile.samples()}))};
}

// The channel-first side of a tile: a thread has one sample, of channels apart.
struct RowSide {
  int channel, apart;
  int place, place_step;  // in the tile
  int64_t first, step;    // in a cloud's rows
  bool exists;

  __device__ RowSide(const Tiling& tile, const Part& part) {
    const int thread = static_cast<int>(threadIdx.x), sample = thread & (tile.samples() - 1);
    channel = thread >> (kTileBits - tile.channel_bits);
    apart = tile.channels() / kOfThread;
    place = tile.at(channel, sample), place_step = tile.at(apart, 0);
    first = channel * tile.points + part.first + sample, step = apart * tile.points;
    exists = sample < part.count;
  }

  // Runs move(place in the tile, element of `rows`), coalesced.
  template <typename Value, typename Move>
  __device__ void each(Value* rows, int channels, Move move) const {
    Value* row = rows + first;
    const int limit = exists ? channels - channel : 0;
#pragma unroll
    for (int i = 0; i < kOfThread; ++i, row += step) {
      if (i * apart < limit) move(place + i * place_step, *row);
    }
  }
};

// The other side: runs visit(sample, channel) for each vector, neighboring threads taking the next.
template <int kWidth, typename Visit>
__device__ void for_vectors(const Tiling& tile, const Part& part, int channels, Visit visit) {
  const int bits = tile.channel_bits - (kWidth == kQuad ? kQuadBits : 0);
  const int channel = (static_cast<int>(threadIdx.x) & ((1 << bits) - 1)) * kWidth;
  if (channel >= channels) return;
#pragma unroll
  for (int i = 0; i < kOfThread / kWidth; ++i) {
    const int sample = (static_cast<int>(threadIdx.x) + i * kThreads) >> bits;
    if (sample < part.count) visit(sample, channel);
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads, 4)
    read_vectors(const Value* features, const Index* idx, WeightsOf<Value> weights, Value* out,
                 GatherShape shape, Tiling tile) {
  Value* const turned = &shared_as<Value>();
  const Part part = part_of(tile);
  const RowSide row_side(tile, part);
  const int64_t corner = (part.b * tile.points + part.first) * weights.corners;
  features += part.b * shape.points * tile.pitch;
  out += part.b * shape.channels * tile.points;
  for (int left = static_cast<int>(shape.channels); left > 0; left -= tile.channels()) {
    for_vectors<kQuad>(tile, part, left, [&](int sample, int channel) {
      const Index* const columns = idx + corner + sample * weights.corners;
      const Value* const weight = weights.at + corner + sample * weights.corners;
      Vector<Value, kQuad> sum = {};
#pragma unroll 1
      for (unsigned k = 0; k < weights.corners; ++k) {
        const int64_t column = checked(columns[k], shape.points);
        const auto given = vector_at<kQuad>(features + column * tile.pitch + channel);
        if (!weights.at) {
          sum = given;
          continue;
        }
#pragma unroll
        for (int w = 0; w < kQuad; ++w) sum.at[w] += product(weight[k], given.at[w]);
      }
#pragma unroll
      for (int w = 0; w < kQuad; ++w) turned[tile.at(channel + w, sample)] = sum.at[w];
    });
    __syncthreads();
    row_side.each(out, left, [&](int place, Value& to) { to = turned[place]; });
    __syncthreads();
    features += tile.channels();
    out += tile.channels() * tile.points;
  }
}

template <typename Value, typename Index>
__global__ void __launch_bounds__(kThreads, 4)
    add_vectors(const Value* values, const Index* idx, WeightsOf<Value> weights, Value* sums,
                GatherShape shape, Tiling tile) {
  constexpr int kWidth = kAddedAtOnce<Value>;
  Value* const turned = &shared_as<Value>();
  const Part part = part_of(tile);
  const RowSide row_side(tile, part);
  const int64_t corner = (part.b * tile.points + part.first) * weights.corners;
  values += part.b * shape.channels * tile.points;
  sums += part.b * shape.points * tile.pitch;
  for (int left = static_cast<int>(shape.channels); left > 0; left -= tile.channels()) {
    row_side.each(values, left, [&](int place, const Value& v) { turned[place] = v; });
    __syncthreads();
    for_vectors<kWidth>(tile, part, left, [&](int sample, int channel) {
      const Index* const columns = idx + corner + sample * weights.corners;
      const Value* const weight = weights.at + corner + sample * weights.corners;
#pragma unroll 1
      for (unsigned k = 0; k < weights.corners; ++k) {
        const int64_t column = checked(columns[k], shape.points);
        Value given[kWidth];
#pragma unroll
        for (int w = 0; w < kWidth; ++w) {
          const Value value = turned[tile.at(channel + w, sample)];
          given[w] = weights.at ? product(value, weight[k]) : value;
        }
        add_at_once(sums + column * tile.pitch + channel, given);
      }
    });
    __syncthreads();
    values += tile.channels() * tile.points;
    sums += tile.channels();
  }
}

template <typename Value, typename Index>
int run(void (*kernel)(const Value*, const Index*, WeightsOf<Value>, Value*, GatherShape, Tiling),
        const void* from, const void* idx, Weights weights, void* to, const GatherShape& shape,
        void* stream) {
  if (shape.batch * shape.channels * shape.samples == 0) return cudaSuccess;
  Tiling tile = {kQuadBits, 0, shape.samples / weights.corners, vector_pitch(shape.channels)};
  while (tile.channel_bits < kMostBits && tile.channels() < shape.channels) ++tile.channel_bits;
  tile.tiles = static_cast<unsigned>(ceil_div(tile.points, tile.samples()));
  const LaunchShape launch_shape = {static_cast<unsigned>(shape.batch) * tile.tiles, kThreads,
                                    tile.elements() * sizeof(Value)};
  return launch(kernel, launch_shape, stream, from, idx, weights, to, shape, tile);
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
