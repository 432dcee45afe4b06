// SPDX-License-Identifier: Apache-2.0
// Capture of streams to graphs, and their execution. The nodes that one stream gave run in a thread of their own, with
// random delays, so that a missing dependency between streams shows.
#include "CudaState.h"

#include <algorithm>

namespace kerf::standin::cuda {

int Driver::checkNoCapture() {
  std::lock_guard lock(mutex);
  int result = kSuccess;
  for (const auto &capture : captures)
    // A capture forbids such calls to all threads in the mode GLOBAL (0), to its own thread in THREAD_LOCAL (1), and to
    // no thread in RELAXED (2).
    if (capture->mode == 0 || (capture->mode == 1 && capture->thread == std::this_thread::get_id())) {
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

/// One launch of a graph.
class GraphRun {
public:
  GraphRun(Device &device, const Graph &graph) : device(device), graph(graph), done(graph.nodes.size()) {}

  /// Runs all nodes. Returns the first error, behind which no node starts.
  int run(uint64_t seed) {
    std::map<Stream *, std::vector<size_t>> lanes;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      lanes[graph.nodes[i].lane].push_back(i);
    std::vector<std::thread> threads;
    for (const auto &[stream, nodes] : lanes)
      threads.emplace_back([this, &nodes = nodes, seed = seed++] { runLane(nodes, seed); });
    for (std::thread &thread : threads)
      thread.join();
    return device.error;
  }

private:
  void runLane(const std::vector<size_t> &nodes, uint64_t seed) {
    constexpr uint64_t kLongestDelayMicroseconds = 200;
    std::mt19937_64 random(seed);
    for (size_t node : nodes) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return device.error || isReady(node); });
      }
      if (uint64_t number = random(); number % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds((number >> 8) % kLongestDelayMicroseconds));
      int error = device.error;
      if (!error && graph.nodes[node].work)
        error = graph.nodes[node].work();
      std::lock_guard lock(mutex);
      if (error)
        device.error = error; // at once: other lanes may wait for other GPUs until somebody asks for the error
      done[node] = true;
      changed.notify_all();
    }
  }
  bool isReady(size_t node) const {
    const std::vector<size_t> &after = graph.nodes[node].after;
    return std::all_of(after.begin(), after.end(), [&](size_t before) { return done[before]; });
  }

  Device &device;
  const Graph &graph;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done;
};

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
  capture->thread = std::this_thread::get_id();
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
  if (capture->mode != 2 && capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  bool fails = ++driver.captureEnds == driver.settings.failingCapture;
  int error = capture->origin != stream.get()            ? kCaptureUnmatched
              : capture->invalid || fails                ? kCaptureInvalidated
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
    ++driver.graphLaunches;
  }
  return driver.submit(stream, *device, [device, graph, seed] { return GraphRun(*device, *graph).run(seed); });
}

namespace {
/// Destroys a graph, also in a broken context. Its nodes end with its last launch.
int destroy(std::map<void *, std::shared_ptr<Graph>> &all, void *handle) {
  int error = kSuccess;
  Driver &driver = Driver::get();
  driver.enter(&error);
  std::shared_ptr<Graph> last; // ends after the lock: what its nodes hold may call the driver
  std::lock_guard lock(driver.mutex);
  auto found = all.find(handle);
  if (found == all.end())
    return kInvalidValue;
  last = std::move(found->second);
  all.erase(found);
  return error;
}
} // namespace

KERF_CUDA_API cuGraphExecDestroy(void *executable) { return destroy(Driver::get().executables, executable); }

KERF_CUDA_API cuGraphDestroy(void *graph) { return destroy(Driver::get().graphs, graph); }

/// For tests: returns the number of launches of graphs.
KERF_CUDA_API kerfStandinGraphLaunches() {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  return int(driver.graphLaunches);
}

} // namespace kerf::standin::cuda
