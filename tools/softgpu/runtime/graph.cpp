// CUDA graphs: the work that streams were given while they were captured, in its order.
#include "memory.h"
#include "stream.h"

namespace softgpu {

struct Graph {
  Stream* origin;
  unsigned long long id;
  std::vector<Queued> nodes;
  std::vector<Stream*> streams;
  bool valid = true;
};

void invalidate(Graph* graph) { graph->valid = false; }

void join_capture(Graph* graph, Stream* stream) {
  for (const Stream* known : graph->streams)
    if (known == stream) return;
  graph->streams.push_back(stream);
}

void capture(Graph* graph, Queued queued) {
  if (queued.run) graph->nodes.push_back(std::move(queued));
}

namespace {

// All nodes on one stream, in the order of their capture, which every order between them allows.
// What is freed after the capture stays in the graph's pool: nodes keep their call's number.
cudaError_t launch_graph(const Graph& graph, Stream* stream) {
  for (const Queued& node : graph.nodes)
    enqueue(stream, node.work->what, node.run, {}, node.work->number);
  return cudaSuccess;
}

}  // namespace
}  // namespace softgpu

using namespace softgpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  SOFTGPU_ENTER();
  Stream* const stream = stream_of(handle);
  if (stream->legacy) return returned(cudaErrorStreamCaptureUnsupported);
  const Lock held(big);
  stream->graph = new Graph{stream, next_number(), {}, {stream}};
  count("captures");
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  SOFTGPU_ENTER();
  const Lock held(big);
  Stream* const stream = stream_of(handle);
  Graph* const captured = stream->graph;
  if (!captured || captured->origin != stream) return returned(cudaErrorIllegalState);
  for (Stream* each : captured->streams) each->graph = nullptr;
  *graph = nullptr;
  if (!captured->valid) return returned(cudaErrorStreamCaptureInvalidated);
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  SOFTGPU_ENTER();
  const Lock held(big);
  const bool captured = stream_of(handle)->graph != nullptr;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  SOFTGPU_ENTER();
  const Lock held(big);
  Graph* const captured = stream_of(handle)->graph;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (id) *id = captured ? captured->id : 0;
  if (graph) *graph = reinterpret_cast<cudaGraph_t>(captured);
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = reinterpret_cast<Graph*>(graph)->nodes.size();
  return cudaSuccess;
}

// The executable graph is the graph: both are dropped with the process.
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  SOFTGPU_ENTER();
  count("graph launches");
  return returned(launch_graph(*reinterpret_cast<Graph*>(executable), stream_of(handle)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

}  // extern "C"
