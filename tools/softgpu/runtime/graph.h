// CUDA graphs: the work that streams were given while they were captured, in its order.
#pragma once

#include <vector>

#include "stream.h"

namespace softgpu {

struct Graph {
  Stream* origin;
  unsigned long long id;
  std::vector<Queued> nodes;
  std::vector<Stream*> streams;
};

void begin_capture(Stream* stream);
Graph* end_capture(Stream* stream);
void join_capture(Graph* graph, Stream* stream);
void capture(Graph* graph, Queued queued);

}  // namespace softgpu
