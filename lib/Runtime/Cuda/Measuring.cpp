// SPDX-License-Identifier: Apache-2.0
#include "Measuring.h"

#include <algorithm>
#include <limits>

namespace kerf::runtime::cuda {

namespace {
// A call is timed once, and then as often as fits into some milliseconds, up to five times.
constexpr float kMillisecondsOfRuns = 4, kMostRuns = 5;
/// A call whose first time is so much longer than the best one's is not timed again, unless it is so short that the
/// host's part of it counts.
constexpr float kHopeless = 1.3F, kShortMilliseconds = 0.5F;
/// Another call than the first one must stay below this part of its time.
constexpr float kLeastGain = 0.98F;
/// Every byte of the memory. The elements are small numbers in each type.
constexpr unsigned char kFilling = 0x3c;
} // namespace

Result<std::unique_ptr<Bench>> Bench::create(const std::shared_ptr<Context> &context,
                                             const std::vector<int64_t> &bytes) {
  std::unique_ptr<Bench> bench(new Bench(context));
  auto stream = CudaStream::create(context);
  if (!stream)
    return stream.error();
  bench->stream = std::move(*stream);
  for (int64_t size : bytes) {
    auto memory = allocateOfGpu(context, size);
    if (!memory)
      return memory.error();
    bench->pieces.push_back(*memory);
    if (size == 0)
      continue;
    Status filled = context->check(context->driver.memsetD8Async(reinterpret_cast<DeviceAddress>(memory->get()),
                                                                 kFilling, size_t(size), bench->stream->stream),
                                   "fill memory");
    if (!filled)
      return filled.error();
  }
  for (DriverEvent *event : {&bench->start, &bench->end})
    if (Status status = context->check(context->driver.eventCreate(event, 0), "make an event"); !status)
      return status.error();
  return bench;
}

Bench::~Bench() {
  if (!context->use())
    return;
  for (DriverEvent event : {start, end})
    if (event)
      context->driver.eventDestroy(event);
}

/// Returns the mean milliseconds of some runs of a call.
Result<float> Bench::millisecondsOf(const LibraryCall &call, int runs) const {
  float milliseconds = 0;
  Status status = context->check(context->driver.eventRecord(start, stream->stream), "record an event");
  for (int run = 0; status && run < runs; ++run)
    status = call(*stream);
  if (status)
    status = context->check(context->driver.eventRecord(end, stream->stream), "record an event");
  if (status)
    status = stream->synchronize();
  if (status)
    status = context->check(context->driver.eventElapsedTime(&milliseconds, start, end), "tell the time of an event");
  return status ? Result<float>(milliseconds / float(runs)) : status.error();
}

/// Returns the milliseconds of a call, after one run that is not counted. `best` are those of the best call so far.
Result<float> Bench::measure(const LibraryCall &call, float best) const {
  if (Status status = call(*stream); !status)
    return status.error();
  auto first = millisecondsOf(call, 1);
  if (!first || *first > std::max(kShortMilliseconds, kHopeless * best))
    return first;
  return millisecondsOf(call, int(std::clamp(kMillisecondsOfRuns / *first, 1.0F, kMostRuns)));
}

Result<size_t> Bench::fastest(const std::vector<LibraryCall> &calls) const {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::optional<Error> failure;
  std::vector<float> milliseconds;
  float best = kNever;
  for (const LibraryCall &call : calls) {
    auto measured = measure(call, best);
    milliseconds.push_back(measured ? *measured : kNever); // the library may refuse what it has proposed
    best = std::min(best, milliseconds.back());
    if (!measured)
      failure = measured.error();
  }
  auto least = std::min_element(milliseconds.begin(), milliseconds.end());
  if (*least == kNever)
    return *failure;
  bool gains = *least < kLeastGain * milliseconds.front();
  return gains ? size_t(least - milliseconds.begin()) : 0;
}

Result<GpuModel> modelOf(const Context &context) {
  GpuModel model;
  DeviceNumber device = 0;
  Status status = context.check(context.driver.deviceGet(&device, context.number()), "be opened");
  struct Property {
    int *value, number;
  };
  for (auto [value, number] : {Property{&model.major, kMajorVersion}, Property{&model.minor, kMinorVersion},
                               Property{&model.processors, kProcessors}})
    if (status)
      status = context.check(context.driver.deviceGetAttribute(value, number, device), "tell its properties");
  return status ? Result<GpuModel>(model) : status.error();
}

} // namespace kerf::runtime::cuda
