// SPDX-License-Identifier: Apache-2.0
#include "Context.h"

#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace kerf::runtime::ascend {

namespace {
constexpr std::chrono::microseconds kPause{50}; // between two looks at a stream that is waited for
} // namespace

Result<std::unique_ptr<AscendStream>> AscendStream::create(std::shared_ptr<Context> context) {
  if (Status status = context->use(); !status)
    return status.error();
  AclStream stream = nullptr;
  if (Status status =
          context->check(context->acl.createStream(&stream, 0, kFastLaunch | kFastSynchronize), "make a stream");
      !status)
    return status.error();
  std::unique_ptr<AscendStream> made(new AscendStream(std::move(context), stream));
  const Context &npu = *made->context;
  if (Status status = npu.check(npu.acl.setStreamFailureMode(stream, kStopOnFailure), "make a stream"); !status)
    return status.error();
  return made;
}

AscendStream::~AscendStream() {
  context->prepareRelease();
  if (context->isAbandoned)
    stop();
  context->acl.destroyStream(stream);
}

Status AscendStream::copy(void *to, const void *from, int64_t bytes, CopyKind kind) {
  if (bytes == 0)
    return ok();
  if (Status status = context->use(); !status)
    return status;
  int direction = kind == CopyKind::ToDevice ? kHostToDevice
                  : kind == CopyKind::ToHost ? kDeviceToHost
                                             : kDeviceToDevice;
  AclResult result = context->acl.memcpyAsync(to, size_t(bytes), from, size_t(bytes), direction, stream);
  return result == 0 ? ok() : context->check(result, fmt::format("copy {} bytes", bytes));
}

Status AscendStream::clear(void *memory, int64_t bytes) {
  if (bytes == 0)
    return ok();
  if (Status status = context->use(); !status)
    return status;
  AclResult result = context->acl.memsetAsync(memory, size_t(bytes), 0, size_t(bytes), stream);
  return result == 0 ? ok() : context->check(result, fmt::format("clear {} bytes", bytes));
}

Status AscendStream::record(Event &event) {
  if (Status status = context->use(); !status)
    return status;
  return context->check(context->acl.recordEvent(static_cast<AscendEvent &>(event).event, stream), "record an event");
}

Status AscendStream::wait(Event &event) {
  if (Status status = context->use(); !status)
    return status;
  return context->check(context->acl.streamWaitEvent(stream, static_cast<AscendEvent &>(event).event),
                        "wait for an event");
}

Status AscendStream::synchronize() {
  if (Status status = context->use(); !status)
    return status;
  const Acl &acl = context->acl;
  while (context->peerFailure) {
    int state = kStreamComplete;
    if (AclResult result = acl.streamQuery(stream, &state)) {
      Error failed = context->check(result, "finish its work").error();
      stop();
      return giveUp(failed);
    }
    if (state == kStreamComplete)
      break;
    if (context->isAbandoned) { // its work may wait for work that was given up
      stop();
      return context->firstFailure ? *context->firstFailure
                                   : Error{fmt::format("NPU {} cannot finish its work: another rank has failed, whose "
                                                       "message comes first; remove its cause",
                                                       context->number)};
    }
    if (std::optional<Error> failure = context->peerFailure()) {
      stop();
      return giveUp(*failure);
    }
    std::this_thread::sleep_for(kPause);
  }
  return context->check(acl.synchronizeStream(stream), "finish its work");
}

Error AscendStream::giveUp(Error failure) {
  if (!context->firstFailure)
    context->firstFailure = failure;
  return failure;
}

void AscendStream::stop() {
  context->isAbandoned = true; // other streams may wait for events that are never recorded now
  const Acl &acl = context->acl;
  if (acl.streamAbort(stream) == 0)
    acl.synchronizeStream(stream); // until the work has ended: the caller may free the memory that it uses
}

Result<void *> AscendStream::workspace() {
  if (workspaceBytes < context->workspaceBytes) {
    auto memory = allocateOfNpu(context, context->workspaceBytes);
    if (!memory)
      return memory.error();
    workspaces.push_back(std::move(*memory));
    workspaceBytes = context->workspaceBytes;
  }
  return static_cast<void *>(workspaces.empty() ? nullptr : workspaces.back().get());
}

Result<AclEvent> makeEvent(const Context &context) {
  if (Status status = context.use(); !status)
    return status.error();
  AclEvent event = nullptr;
  if (Status status = context.check(context.acl.createEvent(&event, kWaitedEvent | kTimedEvent), "make an event");
      !status)
    return status.error();
  return event;
}

Result<std::shared_ptr<EventClock>> makeClock(const std::shared_ptr<Context> &context) {
  return makeEventClock<AscendStream, AscendEvent>(context,
                                                   [context](float *to, const AscendEvent &a, const AscendEvent &b) {
                                                     return context->acl.eventElapsedTime(to, a.event, b.event);
                                                   });
}

Result<std::unique_ptr<AscendEvent>> AscendEvent::create(std::shared_ptr<Context> context,
                                                         std::shared_ptr<EventClock> clock) {
  auto event = makeEvent(*context);
  if (!event)
    return event.error();
  return std::unique_ptr<AscendEvent>(new AscendEvent(std::move(context), std::move(clock), *event));
}

AscendEvent::~AscendEvent() {
  context->prepareRelease();
  context->acl.destroyEvent(event);
}

} // namespace kerf::runtime::ascend
