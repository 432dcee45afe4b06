// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"

#include <utility>

namespace kerf::runtime::cuda {

namespace {
/// Records the work of `enqueue`. Returns the graph, which the caller gives back to the driver.
Result<DriverGraph> capture(CudaStream &origin, const std::function<Status()> &enqueue) {
  Context &context = *origin.context;
  const Driver &driver = context.driver;
  if (Status status = context.use(); !status)
    return status.error();
  if (Status status = context.check(driver.streamBeginCapture(origin.stream, kThreadLocalCapture), "record a step");
      !status)
    return status.error();
  context.recording = true;
  Status enqueued = enqueue();
  context.recording = false;
  DriverGraph graph = nullptr;
  Status ended = context.check(driver.streamEndCapture(origin.stream, &graph), "record a step");
  if (enqueued && ended)
    return graph;
  if (graph)
    driver.graphDestroy(graph);
  return enqueued ? ended.error() : enqueued.error();
}
} // namespace

CudaGraph::CudaGraph(std::shared_ptr<Context> of) : context(std::move(of)) { context->graphs.insert(this); }

CudaGraph::~CudaGraph() {
  release();
  context->graphs.erase(this);
}

void CudaGraph::release() {
  DriverGraph owned = std::exchange(executable, nullptr);
  if (owned && (!context->use() || context->driver.graphExecDestroy(owned) != 0))
    context->keepsGraphs = true;
}

Result<std::unique_ptr<CudaGraph>> CudaGraph::record(CudaStream &origin, const std::function<Status()> &enqueue) {
  auto graph = capture(origin, enqueue);
  if (!graph)
    return graph.error();
  std::unique_ptr<CudaGraph> made(new CudaGraph(origin.context));
  const Driver &driver = origin.context->driver;
  Status status = origin.context->check(driver.graphInstantiate(&made->executable, *graph, 0), "prepare a graph");
  driver.graphDestroy(*graph);
  if (!status)
    return status.error();
  return made;
}

Status CudaGraph::launch(Stream &stream) {
  if (!executable)
    return Error{"the recorded step cannot run, because the communication between the ranks has ended; the "
                 "message of the rank that failed first says why"};
  if (Status status = context->use(); !status)
    return status;
  return context->check(context->driver.graphLaunch(executable, static_cast<CudaStream &>(stream).stream),
                        "launch a recorded step");
}

} // namespace kerf::runtime::cuda
