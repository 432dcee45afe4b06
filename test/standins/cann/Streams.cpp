// SPDX-License-Identifier: Apache-2.0
// The stand-in of libascendcl.so: streams, events, copies and functions of the host.
#include "Streams.h"

#include <cstdlib>
#include <cstring>
#include <set>

namespace kerf::standin::cann {

namespace {
thread_local Stream *running = nullptr;
std::mutex streamsMutex;
std::set<Stream *> streams;

bool isAbortedStream(Stream *stream) {
  std::lock_guard lock(stream->mutex);
  return stream->aborted;
}
} // namespace

void runFor(Stream *stream) { running = stream; }

bool waitFor(Marker &marker) {
  for (;;) {
    std::unique_lock lock(marker.mutex);
    if (marker.changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return marker.isReached; }))
      return true;
    lock.unlock();
    if (isAborted())
      return false;
  }
}

void Stream::run() {
  running = this;
  static const bool isLate = std::getenv("KERF_STANDIN_ASCEND_LATE") != nullptr;
  for (int64_t number = 0;; ++number) {
    std::function<int()> work;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return isEnding || !queue.empty(); });
      if (queue.empty())
        return;
      work = std::move(queue.front());
      queue.pop_front();
      isBusy = true;
    }
    if (isLate && number % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    int code = work();
    std::lock_guard lock(mutex);
    if (code != 0 && error == 0) {
      error = code;
      errorText = takeText();
    }
    isBusy = false;
    changed.notify_all();
  }
}

int checkedStream(void *stream, const char *function) {
  std::lock_guard lock(streamsMutex);
  if (streams.count(static_cast<Stream *>(stream)) == 0)
    return fail(kInvalid, "stream", std::string(function) + " is given a stream that does not exist");
  return 0;
}

bool isAborted() { return running && isAbortedStream(running); }

int enqueue(void *given, const std::string &what, std::function<int()> work) {
  if (int code = checkedStream(given, what.c_str()))
    return code;
  auto &stream = *static_cast<Stream *>(given);
  auto guarded = [what, work = std::move(work)] {
    if (int code = injected(what + "@run"))
      return code;
    return work();
  };
  if (stream.capture)
    return capture(stream, {guarded});
  stream.push([&stream, guarded] {
    {
      std::lock_guard lock(stream.mutex);
      if (stream.error != 0 && stream.stopsOnFailure)
        return 0; // skipped
    }
    return guarded();
  });
  return 0;
}

extern "C" {
int aclrtCreateStreamWithConfig(void **stream, uint32_t, uint32_t flags) {
  KERF_BEGIN(aclrtCreateStreamWithConfig)
  if (flags > 15)
    return fail(kInvalid, "option", "no such flag of streams");
  auto *made = new Stream;
  made->device = currentDevice();
  std::lock_guard lock(streamsMutex);
  streams.insert(made);
  count("streams", 1);
  *stream = made;
  return 0;
}
int aclrtSetStreamFailureMode(void *stream, uint64_t mode) {
  KERF_BEGIN_ON(aclrtSetStreamFailureMode, stream)
  static_cast<Stream *>(stream)->stopsOnFailure = mode == 1;
  return mode <= 1 ? 0 : fail(kInvalid, "option", "no such mode");
}
int aclrtDestroyStream(void *stream) {
  const int injectedCode = injected("aclrtDestroyStream");
  if (int code = checkedStream(stream, "aclrtDestroyStream"))
    return code;
  auto *given = static_cast<Stream *>(stream);
  {
    std::lock_guard lock(streamsMutex);
    streams.erase(given);
  }
  {
    std::lock_guard lock(given->mutex);
    given->isEnding = true;
    given->changed.notify_all();
  }
  if (given->thread.joinable())
    given->thread.join();
  delete given;
  count("streams", -1);
  return injectedCode;
}
int aclrtSynchronizeStream(void *stream) {
  if (int code = needsContext("aclrtSynchronizeStream"))
    return code;
  if (int code = checkedStream(stream, "aclrtSynchronizeStream"))
    return code;
  auto &given = *static_cast<Stream *>(stream);
  if (given.capture) {
    given.capture->isBroken = true;
    return fail(kCaptureFailed, "capture", "a stream that is captured cannot be waited for");
  }
  std::unique_lock lock(given.mutex);
  given.changed.wait(lock, [&] { return given.queue.empty() && !given.isBusy; });
  if (int code = injected("aclrtSynchronizeStream")) // the stream has ended its work, as it has where CANN fails here
    return code;
  int code = std::exchange(given.error, 0);
  return code ? fail(code, "work", given.errorText) : 0;
}
int aclrtStreamQuery(void *stream, int *state) {
  KERF_BEGIN_ON(aclrtStreamQuery, stream)
  auto &given = *static_cast<Stream *>(stream);
  std::lock_guard lock(given.mutex);
  *state = given.queue.empty() && !given.isBusy ? 0 : 1;
  return given.error != 0 && given.stopsOnFailure ? fail(given.error, "work", given.errorText) : 0;
}
int aclrtStreamAbort(void *stream) {
  KERF_BEGIN_ON(aclrtStreamAbort, stream)
  auto &given = *static_cast<Stream *>(stream);
  std::lock_guard lock(given.mutex);
  given.aborted = true;
  given.queue.clear();
  given.error = kStreamAborted; // of the next call that waits for the stream
  given.errorText = "the stream was aborted";
  return 0;
}
int aclrtCreateEventExWithFlag(void **event, uint32_t flags) {
  KERF_BEGIN(aclrtCreateEventExWithFlag)
  if (flags != 9)
    return fail(kInvalid, "option", "events here are both waited for and timed");
  *event = new Event;
  count("events", 1);
  return 0;
}
int aclrtDestroyEvent(void *event) {
  delete static_cast<Event *>(event);
  count("events", -1);
  return injected("aclrtDestroyEvent");
}
int aclrtRecordEvent(void *event, void *stream) {
  KERF_BEGIN_ON(aclrtRecordEvent, stream)
  auto &given = *static_cast<Stream *>(stream);
  auto &recorded = *static_cast<Event *>(event);
  recorded.capture = given.capture;
  if (given.capture) {
    recorded.captured = given.capture->markers++;
    return capture(given, {{}, recorded.captured, -1});
  }
  recorded.marker = std::make_shared<Marker>();
  given.push([marker = recorded.marker] {
    marker->reach(); // after a failure too, so that nobody waits for ever
    return 0;
  });
  return 0;
}
int aclrtStreamWaitEvent(void *stream, void *event) {
  KERF_BEGIN_ON(aclrtStreamWaitEvent, stream)
  auto &given = *static_cast<Stream *>(stream);
  auto &waited = *static_cast<Event *>(event);
  if (waited.capture) {
    if (given.capture && given.capture != waited.capture)
      return fail(kCaptureFailed, "capture", "a stream takes part in one capture at a time");
    if (!given.capture) {
      given.capture = waited.capture;
      given.capture->lanes.push_back({&given, {}});
    }
    return capture(given, {{}, -1, waited.captured});
  }
  if (given.capture) {
    given.capture->isBroken = true;
    return fail(kCaptureFailed, "capture", "a captured stream waits for an event that was recorded before the capture");
  }
  if (!waited.marker)
    return 0; // nothing was recorded: nothing to wait for
  given.push([marker = waited.marker] { return waitFor(*marker) ? 0 : kKernelFailed; });
  return 0;
}
int aclrtEventElapsedTime(float *milliseconds, void *start, void *end) {
  KERF_BEGIN(aclrtEventElapsedTime)
  Time times[2];
  int i = 0;
  for (void *event : {start, end}) {
    std::shared_ptr<Marker> marker = static_cast<Event *>(event)->marker;
    if (!marker)
      return fail(kInvalid, "event", "the time of an event that was not recorded");
    std::lock_guard lock(marker->mutex);
    if (!marker->isReached)
      return fail(kInvalid, "event", "the time of an event that no stream has reached");
    times[i++] = marker->time;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return 0;
}
int aclrtLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  KERF_BEGIN_ON(aclrtLaunchHostFunc, stream)
  if (static_cast<Stream *>(stream)->capture) {
    static_cast<Stream *>(stream)->capture->isBroken = true;
    return fail(kCaptureFailed, "capture", "functions of the host are not captured");
  }
  return enqueue(stream, "aclrtLaunchHostFunc", [function, data] {
    function(data);
    return 0;
  });
}
int aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, int kind, void *stream) {
  KERF_BEGIN_ON(aclrtMemcpyAsync, stream)
  if (bytes > room || bytes == 0)
    return fail(kInvalid, "size", "a copy of more bytes than its target has room for, or of none");
  const bool toHost = kind == 2, fromHost = kind == 1;
  if (kind < 1 || kind > 3)
    return fail(kInvalid, "option", "no such direction of copies");
  const bool isCaptured = static_cast<Stream *>(stream)->capture != nullptr;
  auto *target = toHost ? to : deviceMemory(to, bytes);
  const void *source = fromHost ? from : deviceMemory(from, bytes);
  if (!target || !source)
    return fail(kInvalid, "memory", "a copy's addresses on the device are not within its memory");
  // Memory that is not from aclrtMallocHost is copied at once, or not at all in a capture.
  const void *host = toHost ? to : fromHost ? from : nullptr;
  if (host && !isPinned(host, bytes)) {
    if (isCaptured)
      return fail(kCaptureFailed, "capture", "a captured copy needs memory from aclrtMallocHost");
    auto &given = *static_cast<Stream *>(stream);
    std::unique_lock lock(given.mutex);
    given.changed.wait(lock, [&] { return given.queue.empty() && !given.isBusy; });
    std::memcpy(target, source, bytes);
    return 0;
  }
  return enqueue(stream, "aclrtMemcpyAsync", [=] {
    std::memmove(target, source, bytes);
    return 0;
  });
}
int aclrtMemsetAsync(void *to, size_t room, int32_t value, size_t bytes, void *stream) {
  KERF_BEGIN_ON(aclrtMemsetAsync, stream)
  void *target = deviceMemory(to, bytes);
  if (bytes > room || !target)
    return fail(kInvalid, "memory", "memory to set that is not the device's");
  return enqueue(stream, "aclrtMemsetAsync", [=] {
    std::memset(target, value, bytes);
    return 0;
  });
}
}

} // namespace kerf::standin::cann
