// SPDX-License-Identifier: Apache-2.0
// One NPU as a rank uses it: memory, streams and events.
#pragma once

#include "../Accelerator/Streams.h"
#include "Calls.h"
#include <map>

namespace kerf::runtime::ascend {

/// An open NPU. Streams, events and memory keep it open.
class Context {
public:
  /// Opens the NPU of this number (of those that ASCEND_RT_VISIBLE_DEVICES leaves). Fails if there is none.
  static Result<std::shared_ptr<Context>> open(int number, bool deterministic);
  ~Context();
  Context(const Context &) = delete;

  const Acl &acl;
  const int number;
  const Generation generation;
  /// Makes the NPU current on the calling thread. Every function that calls AscendCL begins with it.
  Status use() const;
  /// Does the same before memory or another object is released, which is tried even where the NPU cannot be made
  /// current.
  void prepareRelease() const;
  /// Returns ok for 0, and otherwise the error of the call; `what` says what the NPU cannot do.
  Status check(AclResult result, std::string_view what) const;
  /// Returns the functions of an operator, which are looked up once.
  Result<OperatorFunctions> find(const Operator &one);

  /// Returns why the other ranks cannot go on, and then has ended this rank's communication with them; null for one
  /// rank. A stream asks while it waits for the NPU, so that no rank waits for a rank that has failed.
  std::function<std::optional<Error>()> peerFailure;
  /// The most bytes of memory that a call of an operator asks for while it runs. Each stream has as much.
  int64_t workspaceBytes = 0;
  /// Whether the work of some instruction cannot be recorded: the host takes part in it.
  bool needsHost = false;

  /// Times at which a capture began or ended: work before and after it is ordered by the end of a step.
  int64_t captures = 0;
  /// Whether another rank has failed or work of a stream was given up, so that work of this rank may never end by
  /// itself.
  bool isAbandoned = false;
  /// Why work of a stream was given up: the first such failure, which later waits report again.
  std::optional<Error> firstFailure;

private:
  Context(const Acl &acl, int number, Generation generation, AclContext context)
      : acl(acl), number(number), generation(generation), context(context) {}
  AclContext context;
  std::map<const char *, OperatorFunctions> functions;
};

/// Returns the generation of an NPU from its name, as aclrtGetSocName and cluster files have it.
Generation generationOf(std::string_view name);

/// Allocates memory of the NPU; null for 0 bytes.
Result<std::shared_ptr<std::byte>> allocateOfNpu(const std::shared_ptr<Context> &context, int64_t bytes);
/// Allocates host memory that the NPU's streams copy to and from; null for 0 bytes.
Result<std::shared_ptr<std::byte>> allocatePinned(const std::shared_ptr<Context> &context, int64_t bytes);

/// A stream of the NPU.
class AscendStream : public AcceleratorStream {
public:
  static Result<std::unique_ptr<AscendStream>> create(std::shared_ptr<Context> context);
  ~AscendStream() override;
  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override;
  Status clear(void *memory, int64_t bytes) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;
  /// Returns memory for operators that run on the stream, Context::workspaceBytes of it.
  Result<void *> workspace();

  const std::shared_ptr<Context> context;
  const AclStream stream;

private:
  AscendStream(std::shared_ptr<Context> context, AclStream stream) : context(std::move(context)), stream(stream) {}
  /// Ends the stream's work, which may be waiting for ranks that have ended.
  void stop();
  /// Keeps the failure for later waits, unless there was one before, and returns it.
  Error giveUp(Error failure);
  int64_t workspaceBytes = 0;
  std::vector<std::shared_ptr<std::byte>> workspaces; // the last one is used; work may still run on the others
};

/// An event of the NPU. Without a clock, its time cannot be asked for.
class AscendEvent : public Event {
public:
  static Result<std::unique_ptr<AscendEvent>> create(std::shared_ptr<Context> context,
                                                     std::shared_ptr<EventClock> clock);
  ~AscendEvent() override;
  Result<double> seconds() override { return clock->secondsOf(*this); }

  const AclEvent event;

private:
  AscendEvent(std::shared_ptr<Context> context, std::shared_ptr<EventClock> clock, AclEvent event)
      : event(event), context(std::move(context)), clock(std::move(clock)) {}
  std::shared_ptr<Context> context;
  std::shared_ptr<EventClock> clock;
};

/// Makes an event that streams wait for and whose time can be read.
Result<AclEvent> makeEvent(const Context &context);
/// Makes the clock of an NPU's events.
Result<std::shared_ptr<EventClock>> makeClock(const std::shared_ptr<Context> &context);

} // namespace kerf::runtime::ascend
