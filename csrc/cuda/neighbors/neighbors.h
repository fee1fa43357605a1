// k nearest neighbors, ball query and nearest sample on a CUDA device, without torch. Exact, the
// lowest row on a tie.
//
// Rows that are not finite are farther than any other, at an infinite distance, and in no ball. A
// query that is not finite is infinitely far from every row.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace farpoint::cuda {

struct SearchBatch {
  const void* xyz;         // (batch, points, 3)
  const void* queries;     // (batch, queries, 3)
  const int64_t* lengths;  // (batch) rows of each cloud, or null: all
  int64_t batch;
  int points;
  int queries_per_cloud;
  void* index = nullptr;  // memory of index_bytes(), or null: every query looks at every row
};

// Squared radii, the inner one included and the outer one not: of every cloud, or (batch, 2) radii
// in the type of the coordinates.
template <class Real>
struct Shell {
  Real inner, limit;
  const Real* radii = nullptr;
};

enum class Search { kKnn, kBall, kNearest };

// Whether a spatial index of its clouds costs a search less than it saves, and the memory that it
// takes, 256-byte aligned. From host numbers alone.
bool wants_index(const SearchBatch& batch, Search search, int device);
size_t index_bytes(const SearchBatch& batch, int device);

// rows int32 and squared distances (batch, queries, k), nearest first, then the nearest again at an
// infinite distance; float64 when `wide`.
int knn(const SearchBatch& batch, int k, int32_t* rows, void* squared, bool wide, int device,
        void* stream);

// The lowest k rows (batch, queries, k) in the shell around the query or at zero distance; the
// first stands again in the places left, row 0 where there is none. `found` (batch, queries) counts
// the others.
int ball_query(const SearchBatch& batch, const Shell<float>& shell, int k, int32_t* rows,
               int32_t* found, int device, void* stream);

// The nearest row of `xyz` for each query (batch, queries) and its squared distance; -1 and
// infinity where there is none, and for queries beyond `query_lengths` (batch) or null.
int nearest(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows, float* squared,
            int device, void* stream);

// The same two in float64, without an index.
int ball_query_wide(const SearchBatch& batch, const Shell<double>& shell, int k, int32_t* rows,
                    int32_t* found, void* stream);
int nearest_wide(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows,
                 double* squared, void* stream);

// counts (batch, m), zero before: how often each of 0..m-1 occurs in assignment (batch, n).
int count(const void* assignment, bool wide_index, int32_t* counts, int64_t batch, int64_t n,
          int64_t m, void* stream);

}  // namespace farpoint::cuda
#pragma GCC visibility pop
