// A spatial index of the clouds of a search, without torch.
#pragma once

#include "cuda/neighbors/neighbors.h"

namespace farpoint::cuda {

struct SpatialIndex;

// Queues the kernels that make an index of the batch's clouds in `batch.index`.
int build_index(const SearchBatch& batch, SpatialIndex& index, int device, void* stream);

// Those that search in it, after it is made; see neighbors.h.
int knn_indexed(const SearchBatch& batch, int k, int32_t* rows, float* squared, int device,
                void* stream);
int ball_query_indexed(const SearchBatch& batch, float inner, float limit, int k, int32_t* rows,
                       int32_t* found, int device, void* stream);
int nearest_indexed(const SearchBatch& batch, const int64_t* query_lengths, int32_t* rows,
                    float* squared, int device, void* stream);

}  // namespace farpoint::cuda
