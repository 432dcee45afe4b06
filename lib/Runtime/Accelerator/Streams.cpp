// SPDX-License-Identifier: Apache-2.0
#include "Streams.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <charconv>
#include <chrono>
#include <fmt/format.h>

namespace kerf::runtime {

namespace {
constexpr double kSecondsOfKnown = 10; // how long an event of known time is used
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Status andWait(Status enqueued, AcceleratorStream &stream) { return enqueued ? stream.synchronize() : enqueued; }
} // namespace

Result<std::shared_ptr<EventClock>> EventClock::create(std::unique_ptr<Stream> stream, std::unique_ptr<Event> known,
                                                       Difference difference) {
  std::shared_ptr<EventClock> clock(new EventClock(std::move(stream), std::move(known), std::move(difference)));
  if (Status status = clock->recordKnown(); !status)
    return status.error();
  return clock;
}

Status EventClock::recordKnown() {
  Status status = stream->record(*known);
  if (status)
    status = stream->synchronize();
  knownSeconds = now();
  return status;
}

Result<double> EventClock::secondsOf(const Event &event) {
  if (now() - knownSeconds > kSecondsOfKnown)
    if (Status status = recordKnown(); !status)
      return status.error();
  auto milliseconds = difference(*known, event);
  if (!milliseconds)
    return milliseconds.error();
  return knownSeconds + double(*milliseconds) / 1000;
}

Status AcceleratorDevice::copyIn(void *device, const void *host, int64_t bytes) {
  return andWait(copyStream().copy(device, host, bytes, CopyKind::ToDevice), copyStream());
}
Status AcceleratorDevice::copyOut(void *host, const void *device, int64_t bytes) {
  return andWait(copyStream().copy(host, device, bytes, CopyKind::ToHost), copyStream());
}
Status AcceleratorDevice::clear(void *device, int64_t bytes) {
  return andWait(copyStream().clear(device, bytes), copyStream());
}

bool AcceleratorDevice::mayOverwrite(const package::Instruction &instruction, const package::Function *function,
                                     int operand, int result) const {
  return mayOverwriteOnHost(instruction, function, operand, result);
}

Result<std::shared_ptr<std::byte>> AcceleratorDevice::copyOf(const void *bytes, int64_t size) {
  auto memory = allocate(size);
  if (memory && size > 0)
    if (Status status = copyIn(memory->get(), bytes, size); !status)
      return status.error();
  return memory;
}

Result<int> deviceNumber(const DeviceOptions &options, std::string_view kind, std::string_view one) {
  const std::string &text = options.parameter;
  if (text.empty() || text == "rank") {
    auto local = rankOnMachine(options.rank);
    if (!local)
      return local.error();
    return int(*local);
  }
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return Error{fmt::format("the device '{0}' takes the number of {1}, a whole number from 0 on, and '{2}' is given; "
                             "write for example {0}:0, or {0} for the {3} of each rank's number",
                             kind, one, text, one.substr(one.find(' ') + 1))};
  return number;
}

} // namespace kerf::runtime
