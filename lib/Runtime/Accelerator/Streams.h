// SPDX-License-Identifier: Apache-2.0
// Streams, events and memory of devices that have their own memory and a queue of work for each stream.
#pragma once

#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// A stream of such a device, which has queues of its own.
class AcceleratorStream : public Stream {
public:
  void reserve(size_t) final {}
  /// Enqueues that `bytes` bytes of the device's memory become 0.
  virtual Status clear(void *memory, int64_t bytes) = 0;
};

/// The relation of a device's event times to the machine's steady clock. An event of known time is recorded again every
/// few seconds, because devices give differences as float numbers of milliseconds.
class EventClock {
public:
  /// Returns the milliseconds between two reached events.
  using Difference = std::function<Result<float>(const Event &from, const Event &to)>;
  /// Makes a clock with a stream that has no other work.
  static Result<std::shared_ptr<EventClock>> create(std::unique_ptr<Stream> stream, std::unique_ptr<Event> known,
                                                    Difference difference);
  /// Returns the time of a reached event in seconds of the steady clock.
  Result<double> secondsOf(const Event &event);

private:
  EventClock(std::unique_ptr<Stream> stream, std::unique_ptr<Event> known, Difference difference)
      : stream(std::move(stream)), known(std::move(known)), difference(std::move(difference)) {}
  Status recordKnown();
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> known;
  Difference difference;
  double knownSeconds = 0;
};

/// Makes a clock of a device's context, whose streams and events are of these types. `elapsed` calls the device's
/// function for the milliseconds between two reached events, and returns its result.
template <typename DeviceStream, typename DeviceEvent, typename Context, typename Elapsed>
Result<std::shared_ptr<EventClock>> makeEventClock(const std::shared_ptr<Context> &context, Elapsed elapsed) {
  auto stream = DeviceStream::create(context);
  if (!stream)
    return stream.error();
  auto known = DeviceEvent::create(context, nullptr);
  if (!known)
    return known.error();
  auto difference = [context, elapsed](const Event &from, const Event &to) -> Result<float> {
    Status status = context->use();
    float milliseconds = 0;
    if (status)
      status = context->check(
          elapsed(&milliseconds, static_cast<const DeviceEvent &>(from), static_cast<const DeviceEvent &>(to)),
          "tell the time of an event that no stream has reached");
    return status ? Result<float>(milliseconds) : status.error();
  };
  return EventClock::create(std::move(*stream), std::move(*known), difference);
}

/// A device whose memory the host cannot reach: it copies to and from it on a stream of its own.
class AcceleratorDevice : public Device {
public:
  Status copyIn(void *device, const void *host, int64_t bytes) final;
  Status copyOut(void *host, const void *device, int64_t bytes) final;
  Status clear(void *device, int64_t bytes) final;
  bool mayOverwrite(const package::Instruction &instruction, const package::Function *function, int operand,
                    int result) const final;
  bool copiesBatchesAhead() const final { return true; }

protected:
  /// Returns device memory that holds these bytes.
  Result<std::shared_ptr<std::byte>> copyOf(const void *bytes, int64_t size);
  /// The stream of copyIn, copyOut and clear.
  virtual AcceleratorStream &copyStream() = 0;
};

/// Returns the number of the device that a rank takes: the parameter's, or that of the rank on its machine. Fails where
/// the parameter is no number; `kind` is the device's kind, and `one` one such device, as "a GPU".
Result<int> deviceNumber(const DeviceOptions &options, std::string_view kind, std::string_view one);

/// Returns an object under one of its bases, or the error.
template <typename Base, typename Made> Result<std::unique_ptr<Base>> asBase(Result<std::unique_ptr<Made>> made) {
  if (!made)
    return made.error();
  return std::unique_ptr<Base>(std::move(*made));
}

} // namespace kerf::runtime
