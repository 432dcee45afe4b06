// SPDX-License-Identifier: Apache-2.0
// Streams, events and captures of the stand-in of libascendcl.so. Each stream has a thread, so that work is done later
// than it is enqueued. A captured stream becomes a lane of the model, and lanes run side by side.
#pragma once

#include "State.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kerf::standin::cann {

using Time = std::chrono::steady_clock::time_point;

/// The place of one record of an event in a stream.
struct Marker {
  std::mutex mutex;
  std::condition_variable changed;
  bool isReached = false;
  Time time;

  void reach() {
    std::lock_guard lock(mutex);
    isReached = true;
    time = std::chrono::steady_clock::now();
    changed.notify_all();
  }
};

/// One thing of a captured lane: work, or the record of or the wait for marker number `marker`.
struct Node {
  std::function<int()> work;
  int records = -1, waits = -1;
};
struct Capture {
  struct Stream *origin;
  std::vector<std::pair<struct Stream *, std::vector<Node>>> lanes; // the origin's lane first
  int markers = 0;
  bool isBroken = false;
};
struct Model {
  std::vector<std::vector<Node>> lanes;
  int markers = 0;
};

struct Event {
  std::shared_ptr<Marker> marker;   // of the last record; null if there was none
  std::shared_ptr<Capture> capture; // of the last record, if it was captured
  int captured = -1;
};

struct Stream {
  int device = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<int()>> queue;
  bool isBusy = false, isEnding = false, aborted = false, stopsOnFailure = false;
  int error = 0;
  std::string errorText;
  std::shared_ptr<Capture> capture;
  std::thread thread; // started with the first work

  void run();
  void push(std::function<int()> work) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    if (!thread.joinable())
      thread = std::thread([this] { run(); });
    changed.notify_all();
  }
};

/// Returns 0 for a stream that exists, else the error.
int checkedStream(void *stream, const char *function);
/// Waits for a marker; returns whether it was reached, and not the stream aborted.
bool waitFor(Marker &marker);
/// Makes the calling thread one that does work of a stream.
void runFor(Stream *stream);
/// Adds a node to the capture of a stream.
int capture(Stream &stream, Node node);

#define KERF_BEGIN(name)                                                                                               \
  if (int code = injected(#name))                                                                                      \
    return code;                                                                                                       \
  if (int code = needsContext(#name))                                                                                  \
    return code;
#define KERF_BEGIN_ON(name, stream)                                                                                    \
  KERF_BEGIN(name)                                                                                                     \
  if (int code = checkedStream(stream, #name))                                                                         \
    return code;

} // namespace kerf::standin::cann
