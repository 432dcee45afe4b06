// SPDX-License-Identifier: Apache-2.0
// The stand-in of libascendcl.so: captured work (aclmdlRI*).
#include "Streams.h"

namespace kerf::standin::cann {

namespace {
thread_local int captures = 0; // of this thread

/// Whether another lane waits for the last node of a lane.
bool isWaitedFor(const Capture &capture, const std::vector<Node> &nodes) {
  if (nodes.empty() || nodes.back().records < 0)
    return nodes.empty() || nodes.back().waits >= 0;
  for (const auto &[lane, others] : capture.lanes)
    for (const Node &node : others)
      if (node.waits == nodes.back().records)
        return true;
  return false;
}

int runLane(const std::vector<Node> &lane, std::vector<Marker> &markers) {
  int code = 0;
  for (const Node &node : lane) {
    if (node.waits >= 0) {
      if (!waitFor(markers[size_t(node.waits)]))
        return kKernelFailed;
    } else if (node.records >= 0) {
      markers[size_t(node.records)].reach();
    } else if (code == 0) {
      code = node.work();
    }
  }
  return code;
}
} // namespace

bool isCapturing() { return captures > 0; }

int capture(Stream &stream, Node node) {
  for (auto &[lane, nodes] : stream.capture->lanes)
    if (lane == &stream) {
      nodes.push_back(std::move(node));
      return 0;
    }
  return fail(kCaptureFailed, "capture", "the stream has no lane");
}

extern "C" {
int aclmdlRICaptureBegin(void *stream, int mode) {
  KERF_BEGIN_ON(aclmdlRICaptureBegin, stream)
  auto &given = *static_cast<Stream *>(stream);
  if (given.capture || mode != 1)
    return fail(kCaptureFailed, "capture", "the stream is captured already, or no such mode");
  given.capture = std::make_shared<Capture>();
  given.capture->origin = &given;
  given.capture->lanes.push_back({&given, {}});
  ++captures;
  return 0;
}
int aclmdlRICaptureEnd(void *stream, void **model) {
  auto &given = *static_cast<Stream *>(stream);
  std::shared_ptr<Capture> capture = given.capture;
  *model = nullptr;
  if (!capture || capture->origin != &given)
    return fail(kCaptureFailed, "capture", "the stream began no capture");
  --captures;
  bool isJoined = true;
  for (const auto &[lane, nodes] : capture->lanes)
    isJoined = isJoined && (lane == &given || isWaitedFor(*capture, nodes));
  auto *made = new Model;
  made->markers = capture->markers;
  for (auto &[lane, nodes] : capture->lanes) {
    lane->capture = nullptr;
    made->lanes.push_back(std::move(nodes));
  }
  if (int code = capture->isBroken ? fail(kCaptureFailed, "capture", "a call has broken the capture")
                 : !isJoined       ? fail(kNotJoined, "capture", "no stream waits for the last work of another one")
                                   : injected("aclmdlRICaptureEnd")) {
    delete made;
    return code;
  }
  count("models", 1);
  *model = made;
  return 0;
}
int aclmdlRIExecuteAsync(void *model, void *stream) {
  KERF_BEGIN_ON(aclmdlRIExecuteAsync, stream)
  auto *given = static_cast<Model *>(model);
  return enqueue(stream, "aclmdlRIExecuteAsync", [given, self = static_cast<Stream *>(stream)] {
    std::vector<Marker> markers(static_cast<size_t>(given->markers));
    std::vector<int> codes(given->lanes.size());
    std::vector<std::thread> threads;
    for (size_t l = 1; l < given->lanes.size(); ++l)
      threads.emplace_back([&, l] {
        runFor(self);
        codes[l] = runLane(given->lanes[l], markers);
      });
    codes[0] = runLane(given->lanes[0], markers);
    for (std::thread &thread : threads)
      thread.join();
    for (int code : codes)
      if (code != 0)
        return code;
    return 0;
  });
}
int aclmdlRIDestroy(void *model) {
  delete static_cast<Model *>(model);
  count("models", -1);
  return injected("aclmdlRIDestroy");
}
}

} // namespace kerf::standin::cann
