// SPDX-License-Identifier: Apache-2.0
// Streams and events.
#include "CudaState.h"

#include <thread>

namespace kerf::standin::cuda {

void Marker::complete() {
  std::lock_guard lock(mutex);
  done = true;
  when = std::chrono::steady_clock::now();
  changed.notify_all();
}

void Marker::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

bool Marker::isComplete() {
  std::lock_guard lock(mutex);
  return done;
}

std::chrono::steady_clock::time_point Marker::time() {
  std::lock_guard lock(mutex);
  return when;
}

void Stream::start() {
  std::thread([self = shared_from_this()] { self->loop(); }).detach();
}

void Stream::close() {
  std::lock_guard lock(mutex);
  closed = true;
  changed.notify_all();
}

std::shared_ptr<Marker> Stream::push(Work work) {
  auto marker = std::make_shared<Marker>();
  std::lock_guard lock(mutex);
  items.push_back({std::move(work), marker});
  changed.notify_all();
  return marker;
}

void Stream::drain() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return items.empty() && !working; });
}

bool Stream::isIdle() {
  std::lock_guard lock(mutex);
  return items.empty() && !working;
}

void Stream::loop() {
  constexpr uint64_t kLongestDelayMicroseconds = 200;
  while (true) {
    Item item;
    uint64_t delay = 0;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return closed || !items.empty(); });
      if (items.empty())
        return;
      item = std::move(items.front());
      items.pop_front();
      working = true;
      uint64_t number = random();
      delay = number % 3 == 0 ? (number >> 8) % kLongestDelayMicroseconds : 0;
    }
    if (delay)
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
    // Work behind an error is dropped, but whoever waits for it must wake up.
    if (item.work && device.error == kSuccess)
      if (int error = item.work())
        device.error = error;
    item.work = nullptr;
    {
      std::lock_guard lock(mutex);
      working = false;
      item.marker->complete();
      changed.notify_all();
    }
  }
}

uint64_t Driver::newSeed() { return random(); }

std::shared_ptr<Stream> Driver::stream(void *handle, Device &device) {
  std::lock_guard lock(mutex);
  // Null and CU_STREAM_LEGACY are the default stream; CU_STREAM_PER_THREAD is treated as it.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) {
    if (!device.nullStream) {
      device.nullStream = std::make_shared<Stream>(device, true, newSeed());
      device.nullStream->start();
    }
    return device.nullStream;
  }
  auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second;
}

int Driver::submit(void *handle, Device &device, Work work, bool wait, const void *chain) {
  auto target = stream(handle, device);
  if (!target)
    return kInvalidHandle;
  std::shared_ptr<Marker> marker;
  {
    std::lock_guard lock(mutex);
    if (Capture *capture = target->capture.get()) {
      if (capture->invalid || wait) {
        capture->invalid = true;
        return wait ? kCaptureUnsupported : kCaptureInvalidated;
      }
      size_t number = capture->nodes.size();
      capture->nodes.push_back({std::move(work), target->captureTail, target.get()});
      if (auto before = capture->chained.find(chain); chain && before != capture->chained.end())
        capture->nodes.back().after.push_back(before->second);
      if (chain)
        capture->chained[chain] = number;
      target->captureTail = {number};
      return kSuccess;
    }
    // The default stream and the blocking streams of a device wait for each other.
    bool isDefault = target == target->device.nullStream;
    for (auto &[otherHandle, other] : streams)
      if (isDefault && other->blocking && &other->device == &target->device) {
        if (other->capture)
          return kCaptureImplicit;
        auto reached = other->push(nullptr);
        target->push([reached] { return reached->wait(), int(kSuccess); });
      }
    if (auto &other = target->device.nullStream; !isDefault && target->blocking && other && !other->isIdle()) {
      auto reached = other->push(nullptr);
      target->push([reached] { return reached->wait(), int(kSuccess); });
    }
    marker = target->push(std::move(work));
  }
  if (!wait)
    return kSuccess;
  marker->wait();
  return target->device.error;
}

void Driver::drain(Device &device) {
  std::vector<std::shared_ptr<Stream>> all;
  {
    std::lock_guard lock(mutex);
    for (auto &[handle, each] : streams)
      if (&each->device == &device)
        all.push_back(each);
    if (device.nullStream)
      all.push_back(device.nullStream);
    all.insert(all.end(), device.closing.begin(), device.closing.end());
    device.closing.clear();
  }
  for (auto &each : all)
    each->drain();
}

namespace {

std::shared_ptr<Event> eventOf(void *handle) {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto found = driver.events.find(handle);
  return found == driver.events.end() ? nullptr : found->second;
}

/// Fails if the stream is capturing, and invalidates the capture: waiting for it has no meaning. Fails too if this
/// thread's capture forbids to wait.
int checkNotCapturing(Stream &stream) {
  Driver &driver = Driver::get();
  {
    std::lock_guard lock(driver.mutex);
    if (stream.capture) {
      stream.capture->invalid = true;
      return kCaptureUnsupported;
    }
  }
  return driver.checkNoCapture();
}

/// Returns the event's marker, or an error: unknown event, or one that was recorded in a capture.
int markerOf(void *handle, std::shared_ptr<Marker> *marker, std::shared_ptr<Event> *event = nullptr) {
  auto found = eventOf(handle);
  if (!found)
    return kInvalidHandle;
  if (int error = Driver::get().checkNoCapture())
    return error;
  std::lock_guard lock(Driver::get().mutex);
  if (found->capture)
    return kCapturedEvent;
  *marker = found->marker;
  if (event)
    *event = found;
  return kSuccess;
}

} // namespace

KERF_CUDA_API cuStreamCreateWithPriority(void **handle, unsigned int flags, int) {
  KERF_CUDA_ENTER(device);
  if (!handle || flags > 1)
    return kInvalidValue;
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto stream = std::make_shared<Stream>(*device, flags == 0, driver.newSeed());
  stream->start();
  *handle = stream.get();
  driver.streams[stream.get()] = stream;
  return kSuccess;
}

KERF_CUDA_API cuStreamCreate(void **handle, unsigned int flags) { return cuStreamCreateWithPriority(handle, flags, 0); }

KERF_CUDA_API cuStreamDestroy_v2(void *handle) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto found = driver.streams.find(handle);
  if (found == driver.streams.end())
    return kInvalidHandle;
  if (found->second->capture)
    found->second->capture->invalid = true;
  found->second->close();
  if (!found->second->isIdle())
    found->second->device.closing.push_back(found->second);
  driver.streams.erase(found);
  return kSuccess;
}

KERF_CUDA_API cuStreamSynchronize(void *handle) {
  KERF_CUDA_ENTER(device);
  auto stream = Driver::get().stream(handle, *device);
  if (!stream)
    return kInvalidHandle;
  if (int error = checkNotCapturing(*stream))
    return error;
  if (stream == device->nullStream)
    return Driver::get().submit(handle, *device, nullptr, true);
  stream->drain();
  return stream->device.error;
}

KERF_CUDA_API cuStreamQuery(void *handle) {
  KERF_CUDA_ENTER(device);
  auto stream = Driver::get().stream(handle, *device);
  if (!stream)
    return kInvalidHandle;
  if (int error = checkNotCapturing(*stream))
    return error;
  bool idle = stream->isIdle();
  return stream->device.error ? int(stream->device.error) : idle ? int(kSuccess) : int(kNotReady);
}

KERF_CUDA_API cuStreamWaitEvent(void *handle, void *eventHandle, unsigned int) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  auto event = eventOf(eventHandle);
  auto stream = driver.stream(handle, *device);
  if (!event || !stream)
    return kInvalidHandle;
  std::shared_ptr<Marker> marker;
  {
    std::lock_guard lock(driver.mutex);
    if (auto capture = event->capture) {
      if (stream->capture && stream->capture != capture)
        return kCaptureMerge;
      if (!driver.captures.contains(capture))
        return kInvalidValue; // that capture has ended
      stream->capture = capture;
      capture->streams.insert(stream.get());
      for (size_t node : event->captureTail)
        stream->captureTail.push_back(node);
      return kSuccess;
    }
    if (stream->capture) {
      stream->capture->invalid = true; // depends on work outside of the capture
      return 905;
    }
    marker = event->marker;
  }
  if (!marker)
    return kSuccess; // was never recorded
  return driver.submit(handle, *device, [marker] { return marker->wait(), int(kSuccess); });
}

KERF_CUDA_API cuLaunchHostFunc(void *handle, void (*function)(void *), void *data) {
  KERF_CUDA_ENTER(device);
  if (!function)
    return kInvalidValue;
  return Driver::get().submit(handle, *device, [=] { return function(data), int(kSuccess); });
}

/// For other stand-ins: enqueues `function`, and calls `release` when neither a stream nor a graph will call it again.
/// In a graph, the calls with the same `chain` follow each other.
KERF_CUDA_API kerfStandinEnqueue(void *handle, void (*function)(void *), void *data, void (*release)(void *),
                                 const void *chain) {
  std::shared_ptr<void> owned(data, release);
  KERF_CUDA_ENTER(device);
  return Driver::get().submit(
      handle, *device, [function, owned] { return function(owned.get()), int(kSuccess); }, false, chain);
}

KERF_CUDA_API cuEventCreate(void **handle, unsigned int flags) {
  KERF_CUDA_ENTER(device);
  if (!handle)
    return kInvalidValue;
  auto event = std::make_shared<Event>();
  event->device = device;
  event->timed = (flags & 2) == 0;
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  *handle = event.get();
  driver.events[event.get()] = event;
  return kSuccess;
}

KERF_CUDA_API cuEventDestroy_v2(void *handle) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  return driver.events.erase(handle) ? kSuccess : kInvalidHandle;
}

KERF_CUDA_API cuEventRecord(void *handle, void *streamHandle) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  auto event = eventOf(handle);
  auto stream = driver.stream(streamHandle, *device);
  if (!event || !stream || event->device != &stream->device)
    return kInvalidHandle;
  {
    std::lock_guard lock(driver.mutex);
    event->capture = stream->capture;
    event->captureTail = stream->captureTail;
    if (stream->capture)
      return stream->capture->invalid ? kCaptureInvalidated : kSuccess;
    event->marker = std::make_shared<Marker>();
  }
  auto marker = event->marker;
  // The marker completes even if the context breaks, so that nobody waits for ever.
  auto completing = std::shared_ptr<void>(nullptr, [marker](void *) { marker->complete(); });
  return driver.submit(streamHandle, *device, [completing] { return int(kSuccess); });
}

KERF_CUDA_API cuEventQuery(void *handle) {
  KERF_CUDA_ENTER(device);
  std::shared_ptr<Marker> marker;
  if (int error = markerOf(handle, &marker))
    return error;
  bool done = !marker || marker->isComplete();
  return device->error ? int(device->error) : done ? int(kSuccess) : int(kNotReady);
}

KERF_CUDA_API cuEventSynchronize(void *handle) {
  KERF_CUDA_ENTER(device);
  std::shared_ptr<Marker> marker;
  if (int error = markerOf(handle, &marker))
    return error;
  if (marker)
    marker->wait();
  return device->error;
}

KERF_CUDA_API cuEventElapsedTime_v2(float *milliseconds, void *start, void *end) {
  KERF_CUDA_ENTER(device);
  std::shared_ptr<Marker> from, to;
  std::shared_ptr<Event> first, second;
  if (int error = markerOf(start, &from, &first))
    return error;
  if (int error = markerOf(end, &to, &second))
    return error;
  if (!milliseconds)
    return kInvalidValue;
  if (!from || !to || !first->timed || !second->timed)
    return kInvalidHandle;
  if (!from->isComplete() || !to->isComplete())
    return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return kSuccess;
}

// The name that drivers before CUDA 12.8 have.
KERF_CUDA_API cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

} // namespace kerf::standin::cuda
