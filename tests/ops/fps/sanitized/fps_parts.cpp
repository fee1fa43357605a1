// Program to run under sanitizers: samples many clouds on one thread and on several, and compares.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/kernels/levels/backend.h"

namespace {

using namespace farpoint::cpu;

std::mt19937 random_bits(7);

int between(int low, int high) { return low + static_cast<int>(random_bits() % (high - low + 1)); }
float normal() { return std::normal_distribution<float>()(random_bits); }
float uniform() { return std::uniform_real_distribution<float>()(random_bits); }

constexpr int kKinds = 8;

float coordinate(int kind, int row, int axis) {
  switch (kind) {
    case 0:
      return normal();
    case 1:  // a surface
      return axis == 2 ? 0 : uniform();
    case 2:  // a lattice, and many points in the same place
      return static_cast<float>(between(0, 9));
    case 3:  // all equal
      return 1.5f;
    case 4:  // a line
      return axis == 0 ? uniform() : 0;
    case 5:  // three densities
      return normal() * (row % 3 == 0 ? 1e-4f : row % 3 == 1 ? 1e-2f : 10.f);
    case 6:  // far from the origin
      return 500'000.f + uniform() * 100;
    default:  // squared distances and surfaces that overflow
      return normal() * (row < 5 ? 1e30f : 1.f);
  }
}

struct Samples {
  int64_t count;
  std::vector<int32_t> rows;
  std::vector<float> distances;
};

Samples sample(const std::vector<float>& xyz, int m, int start, bool with_distances, int threads) {
  Samples p = {0, std::vector<int32_t>(m, -1), std::vector<float>(with_distances ? m : 0, -1.f)};
  const int64_t n = static_cast<int64_t>(xyz.size() / 3);
  p.count = backend().sample({xyz.data(), n, m, start, p.rows.data(),
                              with_distances ? p.distances.data() : nullptr, threads, nullptr});
  return p;
}

bool same(int kind) {
  const int n = between(513, 6000), threads = between(2, std::min(6, n / 512 + 1));
  std::vector<float> xyz(3 * n);
  for (int i = 0; i < 3 * n; ++i) xyz[i] = coordinate(kind, i / 3, i % 3);
  const int m = between(0, 4) == 0 ? n : between(2, n), start = between(0, n - 1);
  const bool with_distances = between(0, 1) == 1;
  const Samples one = sample(xyz, m, start, with_distances, 1);
  const Samples several = sample(xyz, m, start, with_distances, threads);
  if (one.count == several.count && one.rows == several.rows &&
      one.distances == several.distances) {
    return true;
  }
  std::printf("kind %d, %d points, %d samples: %d threads differ\n", kind, n, m, threads);
  return false;
}

}  // namespace

int main(int, char** arguments) {
  for (int i = 0; i < std::atoi(arguments[1]); ++i) {
    if (!same(i % kKinds)) return 1;
  }
}
