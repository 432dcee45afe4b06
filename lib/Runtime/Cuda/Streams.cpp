// SPDX-License-Identifier: Apache-2.0
#include "Context.h"

#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace kerf::runtime::cuda {

namespace {
constexpr std::chrono::microseconds kPause{50}; // between two looks at a stream that is waited for
} // namespace

Result<std::unique_ptr<CudaStream>> CudaStream::create(std::shared_ptr<Context> context) {
  if (Status status = context->use(); !status)
    return status.error();
  DriverStream stream = nullptr;
  if (Status status = context->check(context->driver.streamCreate(&stream, kNonBlocking, 0), "make a stream"); !status)
    return status.error();
  return std::unique_ptr<CudaStream>(new CudaStream(std::move(context), stream));
}

CudaStream::~CudaStream() {
  if (context->use())
    context->driver.streamDestroy(stream);
}

Status CudaStream::copy(void *to, const void *from, int64_t bytes, CopyKind kind) {
  if (bytes == 0)
    return ok();
  if (Status status = context->use(); !status)
    return status;
  const Driver &driver = context->driver;
  auto target = reinterpret_cast<DeviceAddress>(to), source = reinterpret_cast<DeviceAddress>(from);
  DriverResult result = kind == CopyKind::ToDevice ? driver.memcpyHtoDAsync(target, from, size_t(bytes), stream)
                        : kind == CopyKind::ToHost ? driver.memcpyDtoHAsync(to, source, size_t(bytes), stream)
                                                   : driver.memcpyDtoDAsync(target, source, size_t(bytes), stream);
  return result == 0 ? ok() : context->check(result, fmt::format("copy {} bytes", bytes));
}

Status CudaStream::clear(void *memory, int64_t bytes) {
  if (bytes == 0)
    return ok();
  if (Status status = context->use(); !status)
    return status;
  return context->check(
      context->driver.memsetD8Async(reinterpret_cast<DeviceAddress>(memory), 0, size_t(bytes), stream),
      fmt::format("clear {} bytes", bytes));
}

Status CudaStream::record(Event &event) {
  if (Status status = context->use(); !status)
    return status;
  return context->check(context->driver.eventRecord(static_cast<CudaEvent &>(event).event, stream), "record an event");
}

Status CudaStream::wait(Event &event) {
  if (Status status = context->use(); !status)
    return status;
  return context->check(context->driver.streamWaitEvent(stream, static_cast<CudaEvent &>(event).event, 0),
                        "wait for an event");
}

Status CudaStream::synchronize() {
  if (Status status = context->use(); !status)
    return status;
  if (!context->peerFailure)
    return context->check(context->driver.streamSynchronize(stream), "finish its work");
  for (;;) {
    DriverResult result = context->driver.streamQuery(stream);
    if (result != kNotReady)
      return context->check(result, "finish its work");
    if (std::optional<Error> failure = context->peerFailure())
      return *failure;
    std::this_thread::sleep_for(kPause);
  }
}

Result<std::shared_ptr<EventClock>> makeClock(const std::shared_ptr<Context> &context) {
  return makeEventClock<CudaStream, CudaEvent>(context, [context](float *to, const CudaEvent &a, const CudaEvent &b) {
    return context->driver.eventElapsedTime(to, a.event, b.event);
  });
}

Result<std::unique_ptr<CudaEvent>> CudaEvent::create(std::shared_ptr<Context> context,
                                                     std::shared_ptr<EventClock> clock) {
  if (Status status = context->use(); !status)
    return status.error();
  DriverEvent event = nullptr;
  if (Status status = context->check(context->driver.eventCreate(&event, 0), "make an event"); !status)
    return status.error();
  return std::unique_ptr<CudaEvent>(new CudaEvent(std::move(context), std::move(clock), event));
}

CudaEvent::~CudaEvent() {
  if (context->use())
    context->driver.eventDestroy(event);
}

} // namespace kerf::runtime::cuda
