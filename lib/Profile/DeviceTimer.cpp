// SPDX-License-Identifier: Apache-2.0
#include "DeviceTimer.h"
#include "Collectives.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Collectives.h"

#include <algorithm>
#include <thread>

using namespace kerf;
using namespace kerf::profile;
using namespace kerf::runtime;

namespace {
constexpr int64_t kFootprintBytes = int64_t(128) << 20; // more than the caches of GPUs
constexpr int64_t kMostCopies = 16;
constexpr int kRounds = 10;
constexpr int64_t kMostCalls = 1000;
constexpr double kLeastSeconds = 1e-9; // shorter times are noise of the clock

/// Allocates a tensor on the device and fills it with values that its type allows.
Result<TensorView> tensorOn(Device &device, const TensorSpec &spec, std::vector<std::shared_ptr<std::byte>> &memory) {
  TensorMemory host;
  TensorView filled = host.tensor(spec), view = filled;
  if (spec.dtype == DType::BF16 ||
      spec.dtype == DType::F16) { // a GPU computes faster with zeros than with other numbers
    const int64_t half = spec.dtype == DType::BF16 ? 0x3f00 : 0x3800; // 0.5
    for (int64_t i = 0; i < filled.elements(); ++i)
      static_cast<uint16_t *>(filled.data)[i] = // 0.5 to about 1 with either sign
          uint16_t(half + i % 127 + (uint32_t(i) * 2654435761u >> 31 << 15));
  }
  auto allocated = device.allocate(view.bytes());
  if (!allocated)
    return allocated.error();
  view.data = allocated->get();
  memory.push_back(std::move(*allocated));
  if (Status status = device.copyIn(view.data, filled.data, view.bytes()); !status)
    return status.error();
  return view;
}

/// Runs `count` calls and returns the seconds of one of them, by events.
Result<double> round(Stream &stream, Event &start, Event &end, int64_t count,
                     const std::function<Status(Stream &, size_t)> &launch) {
  stream.reserve(size_t(count) + 2);
  Status status = stream.record(start);
  for (int64_t call = 0; call < count && status; ++call)
    status = launch(stream, size_t(call));
  if (status)
    status = stream.record(end);
  Status ended = stream.synchronize();
  if (!status || !ended)
    return status ? ended.error() : status.error();
  auto from = start.seconds(), to = end.seconds();
  if (!from || !to)
    return from ? to.error() : from.error();
  return std::max(kLeastSeconds, (*to - *from) / double(count));
}
} // namespace

Result<std::unique_ptr<DeviceKernel>> DeviceKernel::make(Device &device, const KernelSpec &spec) {
  auto made = std::make_unique<DeviceKernel>();
  made->instruction.op = spec.op;
  made->instruction.attrs = spec.attrs;
  int64_t bytes = 1;
  for (const auto *specs : {&spec.operands, &spec.results})
    for (const TensorSpec &tensor : *specs)
      bytes += elementsOf(tensor.shape) * bytesOf(tensor.dtype);
  int64_t copies = std::clamp<int64_t>(kFootprintBytes / bytes, 1, kMostCopies);
  void *scratch = nullptr;
  for (int64_t copy = 0; copy < copies; ++copy) {
    KernelRequest request{made->instruction, {}, {}, made->mesh};
    for (auto [specs, views] :
         {std::pair(&spec.operands, &request.operands), std::pair(&spec.results, &request.results)})
      for (const TensorSpec &tensor : *specs) {
        auto view = tensorOn(device, tensor, made->memory);
        if (!view)
          return view.error();
        views->push_back(*view);
      }
    if (copy == 0) {
      auto scratchBytes = device.scratchBytes(request);
      auto allocated =
          scratchBytes ? device.allocate(*scratchBytes) : Result<std::shared_ptr<std::byte>>(scratchBytes.error());
      if (!allocated)
        return allocated.error();
      scratch = allocated->get();
      made->memory.push_back(std::move(*allocated));
    }
    request.scratch = scratch;
    auto kernel = device.bind(request);
    if (!kernel)
      return kernel.error();
    made->kernels.push_back(std::move(*kernel));
  }
  return made;
}

Result<double> kerf::profile::secondsOnDevice(Device &device, double budgetSeconds,
                                              const std::function<Status(Stream &, size_t)> &launch) {
  auto stream = device.createStream(StreamKind::Compute);
  auto start = device.createEvent(), end = device.createEvent();
  if (!stream || !start || !end)
    return !stream ? stream.error() : !start ? start.error() : end.error();
  auto warm = round(**stream, **start, **end, 1, launch);
  if (warm)
    warm = round(**stream, **start, **end, 1, launch);
  if (!warm)
    return warm;
  auto count = int64_t(std::clamp(budgetSeconds / kRounds / *warm, 1.0, double(kMostCalls)));
  std::vector<double> seconds;
  Clock::time_point begin = Clock::now();
  while (seconds.empty() || (seconds.size() < size_t(kRounds) && secondsSince(begin) < budgetSeconds)) {
    auto one = round(**stream, **start, **end, count, launch);
    if (!one)
      return one;
    seconds.push_back(*one);
  }
  if (auto fault = device.takeFault())
    return fault->error;
  return percentile30(seconds);
}

Result<KernelSample> kerf::profile::measureOnDevice(Device &device, const KernelSpec &spec, double budgetSeconds) {
  auto kernel = DeviceKernel::make(device, spec);
  auto seconds = kernel ? secondsOnDevice(device, budgetSeconds,
                                          [&](Stream &on, size_t call) { return (*kernel)->launch(on, call); })
                        : Result<double>(kernel.error());
  if (!seconds)
    return Error{"profile: " + spec.name + ": " + seconds.error().message, seconds.error().status};
  return sampleOf(spec, *seconds);
}

Result<double> kerf::profile::measureSustained(Device &device, const KernelSpec &spec, double seconds) {
  constexpr double kOfRound = 0.05;                                        // of `seconds`
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds / 4)); // the GPU cools down
  auto kernel = DeviceKernel::make(device, spec);
  auto stream = device.createStream(StreamKind::Compute);
  auto start = device.createEvent(), end = device.createEvent();
  if (!kernel || !stream || !start || !end)
    return !kernel ? kernel.error() : !stream ? stream.error() : !start ? start.error() : end.error();
  auto measure = [&](int64_t count) {
    return round(**stream, **start, **end, count, [&](Stream &on, size_t call) { return (*kernel)->launch(on, call); });
  };
  auto first = measure(1); // loads the code
  if (first)
    first = measure(1);
  if (!first)
    return first;
  auto count = int64_t(std::clamp(kOfRound * seconds / *first, 1.0, double(kMostCalls)));
  Result<double> fast = measure(count), last = fast;
  for (Clock::time_point begin = Clock::now(); last && secondsSince(begin) < seconds;)
    last = measure(count);
  if (!fast || !last)
    return fast ? last : fast;
  return std::min(1.0, *fast / *last);
}

Result<LaunchTimes> kerf::profile::measureLaunches(Device &device, double budgetSeconds) {
  constexpr size_t kRecorded = 100;
  TensorSpec x{DType::F32, {32}};
  KernelSpec small;
  small.op = "add";
  small.attrs = nlohmann::ordered_json::object();
  small.operands = {x, x};
  small.results = {x};
  auto kernel = DeviceKernel::make(device, small);
  if (!kernel)
    return kernel.error();
  auto single = secondsOnDevice(device, budgetSeconds, [&](Stream &on, size_t) { return (*kernel)->launch(on, 0); });
  auto stream = device.createStream(StreamKind::Compute);
  if (!single || !stream)
    return single ? stream.error() : single.error();
  auto recording = device.record(**stream, [&] {
    Status status = ok();
    for (size_t call = 0; call < kRecorded && status; ++call)
      status = (*kernel)->launch(**stream, 0);
    return status;
  });
  if (!recording)
    return recording.error();
  if (!*recording)
    return LaunchTimes{*single, std::nullopt};
  auto whole = secondsOnDevice(device, budgetSeconds, [&](Stream &on, size_t) { return (*recording)->launch(on); });
  if (!whole)
    return whole.error();
  return LaunchTimes{*single, *whole / double(kRecorded)};
}

Result<double> kerf::profile::measureHostCopies(Device &device, int64_t bytes, double budgetSeconds) {
  auto host = device.allocateHost(bytes);
  auto memory = device.allocate(bytes);
  if (!host || !memory)
    return host ? memory.error() : host.error();
  auto seconds = secondsOnDevice(device, budgetSeconds, [&](Stream &on, size_t) {
    return on.copy(memory->get(), host->get(), bytes, CopyKind::ToDevice);
  });
  if (!seconds)
    return seconds.error();
  return double(bytes) / *seconds;
}

namespace {
/// One rank of a measured collective; everything of it is made and released on its own thread.
Result<double> timedRank(std::string_view kind, Collective collective, const CollectiveShapes &shapes, const Mesh &mesh,
                         Communicator &communicator, int64_t count) {
  DeviceOptions options;
  options.rank = communicator.rank();
  auto device = createDevice(kind, options);
  if (!device)
    return device.error();
  std::vector<std::shared_ptr<std::byte>> memory;
  package::Instruction instruction;
  instruction.op = std::string(toString(collective));
  instruction.attrs = shapes.attrs;
  auto from = tensorOn(**device, {DType::F32, shapes.from}, memory),
       to = tensorOn(**device, {DType::F32, shapes.to}, memory);
  if (!from || !to)
    return from ? to.error() : from.error();
  CollectiveRequest request{{instruction, {*from}, {*to}, mesh, communicator.rank()}, kFirstCollectiveTag};
  auto scratchBytes = (*device)->collectiveScratchBytes(request, {});
  auto scratch =
      scratchBytes ? (*device)->allocate(*scratchBytes) : Result<std::shared_ptr<std::byte>>(scratchBytes.error());
  auto backend = (*device)->createCollectives(communicator, {});
  if (!scratch || !backend)
    return scratch ? backend.error() : scratch.error();
  request.bind.scratch = scratch->get();
  auto bound = (*backend)->bind(request);
  auto stream = (*device)->createStream(StreamKind::Auxiliary);
  auto start = (*device)->createEvent(), end = (*device)->createEvent();
  if (!bound || !stream || !start || !end)
    return !bound ? bound.error() : !stream ? stream.error() : !start ? start.error() : end.error();
  auto launch = [&](Stream &on, size_t) { return (*bound)->launch(on); };
  auto warm = round(**stream, **start, **end, 2, launch); // all ranks make the same number of calls
  std::vector<double> seconds;
  for (int r = 0; r < kRounds && warm; ++r) {
    auto one = round(**stream, **start, **end, count, launch);
    if (!one)
      return one;
    seconds.push_back(*one);
  }
  return warm ? Result<double>(percentile30(seconds)) : warm;
}
} // namespace

Result<CollectiveSample> kerf::profile::measureOnDevices(std::string_view kind, Collective collective, int64_t ranks,
                                                         int64_t bytes, double budgetSeconds) {
  Mesh mesh{{{"data", ranks}}};
  int64_t cuts = 4 * ranks * ranks;
  bytes = std::max<int64_t>(1, bytes / cuts) * cuts;
  CollectiveShapes shapes = collectiveShapes(collective, ranks, bytes);
  constexpr double kUsualBandwidth = 1e10;
  auto count = int64_t(std::clamp(budgetSeconds / kRounds / (1e-4 + double(bytes) / kUsualBandwidth), 1.0, 50.0));
  auto communicators = createThreadCommunicators(ranks);
  std::vector<Result<double>> results(size_t(ranks), Result<double>(0.0));
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      results[size_t(r)] = timedRank(kind, collective, shapes, mesh, *communicators[size_t(r)], count);
      if (!results[size_t(r)]) // the other ranks must not wait for this one
        communicators[size_t(r)]->abort(results[size_t(r)].error());
    });
  for (std::thread &thread : threads)
    thread.join();
  double slowest = 0;
  for (const Result<double> &result : results) {
    if (!result)
      return Error{"profile: " + result.error().message, result.error().status};
    slowest = std::max(slowest, *result);
  }
  return CollectiveSample{collective, ranks, double(bytes), slowest};
}
