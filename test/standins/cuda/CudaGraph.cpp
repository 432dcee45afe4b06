// SPDX-License-Identifier: Apache-2.0
// Capture of streams to graphs, and their execution. A graph's nodes are run one after the other, in a random order
// that their dependencies allow, so that a missing dependency shows.
#include "CudaState.h"

#include <algorithm>

namespace kerf::standin::cuda {

int Driver::checkNoCapture() {
  std::lock_guard lock(mutex);
  int result = kSuccess;
  for (const auto &capture : captures)
    if (capture->mode == 0) { // CU_STREAM_CAPTURE_MODE_GLOBAL
      capture->invalid = true;
      result = kCaptureUnsupported;
    }
  return result;
}

namespace {

/// Ends a capture and lets its streams work again. The caller holds the driver's mutex.
void leaveCapture(Driver &driver, const std::shared_ptr<Capture> &capture) {
  for (Stream *stream : capture->streams) {
    bool alive = driver.streams.contains(stream);
    if (!alive)
      continue;
    stream->capture = nullptr;
    stream->captureTail.clear();
  }
  driver.captures.erase(capture);
}

/// Returns whether every node precedes one of `tail`, that is, whether all work was joined.
bool allReach(const Capture &capture, const std::vector<size_t> &tail) {
  std::vector<bool> reached(capture.nodes.size());
  for (size_t node : tail)
    reached[node] = true;
  for (size_t i = capture.nodes.size(); i-- > 0;)
    if (reached[i])
      for (size_t before : capture.nodes[i].after)
        reached[before] = true;
  return std::all_of(reached.begin(), reached.end(), [](bool value) { return value; });
}

int runGraph(const Graph &graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<size_t> missing(graph.nodes.size());
  std::vector<std::vector<size_t>> followers(graph.nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    std::set<size_t> after(graph.nodes[i].after.begin(), graph.nodes[i].after.end());
    missing[i] = after.size();
    for (size_t before : after)
      followers[before].push_back(i);
    if (after.empty())
      ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    size_t node = ready.back();
    ready.pop_back();
    if (graph.nodes[node].work)
      if (int error = graph.nodes[node].work())
        return error;
    for (size_t follower : followers[node])
      if (--missing[follower] == 0)
        ready.push_back(follower);
  }
  return kSuccess;
}

} // namespace

KERF_CUDA_API cuStreamBeginCapture_v2(void *handle, int mode) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  auto stream = driver.stream(handle, *device);
  if (!stream)
    return kInvalidHandle;
  if (stream == device->nullStream)
    return kCaptureUnsupported;
  std::lock_guard lock(driver.mutex);
  if (stream->capture)
    return kCaptureUnsupported;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream.get();
  capture->mode = mode;
  capture->streams.insert(stream.get());
  stream->capture = capture;
  stream->captureTail.clear();
  driver.captures.insert(capture);
  return kSuccess;
}

KERF_CUDA_API cuStreamEndCapture(void *handle, void **graph) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  auto stream = driver.stream(handle, *device);
  if (!stream || !graph)
    return !stream ? kInvalidHandle : kInvalidValue;
  *graph = nullptr;
  std::lock_guard lock(driver.mutex);
  auto capture = stream->capture;
  if (!capture)
    return kInvalidValue;
  int error = capture->origin != stream.get()            ? kCaptureUnmatched
              : capture->invalid                         ? kCaptureInvalidated
              : !allReach(*capture, stream->captureTail) ? kCaptureUnjoined
                                                         : kSuccess;
  if (error == kCaptureUnmatched) {
    capture->invalid = true;
    return error;
  }
  leaveCapture(driver, capture);
  if (error)
    return error;
  auto result = std::make_shared<Graph>();
  result->nodes = std::move(capture->nodes);
  *graph = result.get();
  driver.graphs[result.get()] = result;
  return kSuccess;
}

KERF_CUDA_API cuStreamIsCapturing(void *handle, int *status) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  auto stream = driver.stream(handle, *device);
  if (!stream || !status)
    return !stream ? kInvalidHandle : kInvalidValue;
  std::lock_guard lock(driver.mutex);
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return kSuccess;
}

KERF_CUDA_API cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto found = driver.graphs.find(graph);
  if (!executable || found == driver.graphs.end())
    return kInvalidValue;
  auto result = std::make_shared<Graph>(*found->second);
  *executable = result.get();
  driver.executables[result.get()] = result;
  return kSuccess;
}

KERF_CUDA_API cuGraphLaunch(void *executable, void *stream) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::shared_ptr<Graph> graph;
  uint64_t seed = 0;
  {
    std::lock_guard lock(driver.mutex);
    auto found = driver.executables.find(executable);
    if (found == driver.executables.end())
      return kInvalidValue;
    graph = found->second;
    seed = driver.newSeed();
  }
  return driver.submit(stream, *device, [graph, seed] { return runGraph(*graph, seed); });
}

KERF_CUDA_API cuGraphExecDestroy(void *executable) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  return driver.executables.erase(executable) ? kSuccess : kInvalidValue;
}

KERF_CUDA_API cuGraphDestroy(void *graph) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  return driver.graphs.erase(graph) ? kSuccess : kInvalidValue;
}

} // namespace kerf::standin::cuda
