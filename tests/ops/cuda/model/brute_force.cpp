// Brute-force farthest point sampling of one cloud, the contract word by word.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

bool finite(const float* p) {
  return std::isfinite(p[0]) && std::isfinite(p[1]) && std::isfinite(p[2]);
}

float squared(const float* p, const float* s) {
  const float dx = p[0] - s[0], dy = p[1] - s[1], dz = p[2] - s[2];
  return std::fmaf(dz, dz, std::fmaf(dy, dy, dx * dx));
}

struct Row {
  float nearest = std::numeric_limits<float>::infinity();
  bool finite = false;
  bool taken = false;

  // Finite before not finite; the caller breaks ties by order.
  bool beats(const Row& other) const {
    return finite != other.finite ? finite : finite && nearest > other.nearest;
  }
};

int first_sample(const std::vector<Row>& rows, int start) {
  if (rows[start].finite) return start;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].finite) return static_cast<int>(i);
  }
  return start;
}

int farthest(const std::vector<Row>& rows) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    if (!rows[i].taken && (best < 0 || rows[i].beats(rows[best]))) best = i;
  }
  return best;
}

}  // namespace

extern "C" void brute_force(const float* xyz, int n, int m, int start, int32_t* indices,
                            float* distances) {
  std::vector<Row> rows(n);
  for (int i = 0; i < n; ++i) rows[i].finite = finite(xyz + 3 * i);
  for (int k = 0; k < m; ++k) {
    const int sample = k == 0 ? first_sample(rows, start) : farthest(rows);
    rows[sample].taken = true;
    indices[k] = sample;
    float radius = 0.0f;
    for (int i = 0; i < n; ++i) {
      if (!rows[i].finite || !rows[sample].finite) continue;
      rows[i].nearest = std::fmin(rows[i].nearest, squared(xyz + 3 * i, xyz + 3 * sample));
      radius = std::fmax(radius, rows[i].nearest);
    }
    distances[k] = std::sqrt(radius);
  }
}
