// SPDX-License-Identifier: Apache-2.0
#include "Measuring.h"

#include <algorithm>
#include <limits>

namespace kerf::runtime::cuda {

namespace {
constexpr int kTimedRuns = 5;
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

/// Returns the milliseconds of a few runs of a call, after one run that is not counted.
Result<float> Bench::millisecondsOf(const LibraryCall &call) const {
  float milliseconds = 0;
  Status status = call(*stream);
  if (status)
    status = context->check(context->driver.eventRecord(start, stream->stream), "record an event");
  for (int run = 0; status && run < kTimedRuns; ++run)
    status = call(*stream);
  if (status)
    status = context->check(context->driver.eventRecord(end, stream->stream), "record an event");
  if (status)
    status = stream->synchronize();
  if (status)
    status = context->check(context->driver.eventElapsedTime(&milliseconds, start, end), "tell the time of an event");
  return status ? Result<float>(milliseconds) : status.error();
}

Result<size_t> Bench::fastest(const std::vector<LibraryCall> &calls) const {
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::optional<Error> failure;
  std::vector<float> milliseconds;
  for (const LibraryCall &call : calls) {
    auto measured = millisecondsOf(call);
    milliseconds.push_back(measured ? *measured : kNever); // the library may refuse what it has proposed
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
