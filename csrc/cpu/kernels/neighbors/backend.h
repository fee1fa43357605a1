// Backend interface of the neighbor searches, one backend per instruction set.
#pragma once

#include <cstdint>

namespace farpoint::cpu {

// An index holds finite points only, and a query is finite. Rows count from 0 in the order given.
struct SearchBackend {
  const char* name;

  // An index of n >= 1 rows of 3 that about `queries` searches will use, for `within` if `balls`.
  void* (*build)(const float* xyz, int64_t n, int64_t queries, bool balls, int threads);
  void (*destroy)(void* index);

  // The k <= n nearest rows, nearest first, the lowest row on a tie. At least k rows are known to
  // lie nearer than `limit`, a squared distance; `work` has room for k keys.
  void (*nearest)(const void* index, const float* query, int64_t k, float limit, uint64_t* work,
                  int32_t* rows, float* squared);
  // The nearest row to each of `count` queries. False, with nothing written, where `nearest` is
  // faster or a query is not finite.
  bool (*nearest_to_many)(const void* index, const float* queries, int64_t count, int32_t* rows,
                          float* squared);
  // The lowest k rows whose squared distance is at most `reach` and either at least `inner` or
  // zero, lowest first; returns how many.
  int64_t (*within)(const void* index, const float* query, float inner, float reach, int64_t k,
                    int32_t* rows);
};

extern const SearchBackend search_plain;
#if defined(__x86_64__)
extern const SearchBackend search_avx2;
extern const SearchBackend search_avx512;
#endif

}  // namespace farpoint::cpu
