// SPDX-License-Identifier: Apache-2.0
// The choice among the algorithms that cuBLASLt proposes. Each is run on memory of its own, so that no tensor of the
// program changes, and the choice is kept for the process: equal layers measure once.
#include "Gemm.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

namespace kerf::runtime::cuda {

namespace {
constexpr double kLeastMeasured = 1 << 26; // multiplications: a smaller product takes less time than its launch
constexpr int kTimedRuns = 5;
/// Another algorithm than the first proposal must stay below this part of its time.
constexpr float kLeastGain = 0.98F;
/// Every element of the measured matrices has bytes of this value, which is a small number in each type.
constexpr unsigned char kFilling = 0x3c;

/// A problem on one model of GPU, as far as the driver tells models apart.
struct Problem {
  Gemm gemm;
  int major = 0, minor = 0, processors = 0;
  auto operator<=>(const Problem &) const = default;
};

/// The memory, stream and events of a measurement.
class Bench {
public:
  static Result<std::unique_ptr<Bench>> create(GemmDescriptors &descriptors) {
    std::unique_ptr<Bench> bench(new Bench(descriptors));
    const Gemm &gemm = descriptors.gemm;
    const std::shared_ptr<Context> &context = descriptors.context;
    auto stream = CudaStream::create(context);
    if (!stream)
      return stream.error();
    bench->stream = std::move(*stream);
    int64_t bytes[] = {bytesOf(gemm.a, gemm.batches),
                       bytesOf(gemm.b, gemm.batches),
                       bytesOf(gemm.d, gemm.batches),
                       workspaceBytes(gemm),
                       biasElements(gemm) * bytesOf(gemm.d.type),
                       auxElements(gemm) * bytesOf(gemm.d.type)};
    for (int i = 0; i < kMemories; ++i) {
      auto memory = allocateOfGpu(context, bytes[i]);
      if (!memory)
        return memory.error();
      bench->memory[i] = *memory;
      if (bytes[i] == 0)
        continue;
      if (Status status =
              context->check(context->driver.memsetD8Async(reinterpret_cast<DeviceAddress>(memory->get()), kFilling,
                                                           size_t(bytes[i]), bench->stream->stream),
                             "fill memory");
          !status)
        return status.error();
    }
    for (DriverEvent *event : {&bench->start, &bench->end})
      if (Status status = context->check(context->driver.eventCreate(event, 0), "make an event"); !status)
        return status.error();
    if (Status status = descriptors.setEpilogue(bench->places()); !status)
      return status.error();
    return bench;
  }
  ~Bench() {
    if (!context.use())
      return;
    for (DriverEvent event : {start, end})
      if (event)
        context.driver.eventDestroy(event);
  }
  Bench(const Bench &) = delete;

  /// Returns the milliseconds of a few runs of the algorithm, after one run that is not counted.
  Result<float> millisecondsOf(const CublasAlgorithm &algorithm) const {
    float milliseconds = 0;
    Status status = descriptors.enqueue(algorithm, places(), *stream);
    if (status)
      status = context.check(context.driver.eventRecord(start, stream->stream), "record an event");
    for (int run = 0; status && run < kTimedRuns; ++run)
      status = descriptors.enqueue(algorithm, places(), *stream);
    if (status)
      status = context.check(context.driver.eventRecord(end, stream->stream), "record an event");
    if (status)
      status = stream->synchronize();
    if (status)
      status = context.check(context.driver.eventElapsedTime(&milliseconds, start, end), "tell the time of an event");
    return status ? Result<float>(milliseconds) : status.error();
  }

private:
  static constexpr int kMemories = 6;
  GemmPlaces places() const {
    return {memory[0].get(), memory[1].get(), memory[2].get(), memory[3].get(), memory[4].get(), memory[5].get()};
  }
  explicit Bench(const GemmDescriptors &descriptors) : descriptors(descriptors), context(*descriptors.context) {}
  const GemmDescriptors &descriptors;
  const Context &context;
  std::shared_ptr<std::byte>
      memory[kMemories]; // A, B, D, workspace, bias, aux; freed after the stream, which is synchronized
  std::unique_ptr<CudaStream> stream;
  DriverEvent start = nullptr, end = nullptr;
};

Result<CublasAlgorithm> fastest(GemmDescriptors &descriptors, const std::vector<CublasAlgorithm> &proposals) {
  auto bench = Bench::create(descriptors);
  if (!bench)
    return proposals.front(); // the GPU has no memory left for a measurement
  constexpr float kNever = std::numeric_limits<float>::infinity();
  std::optional<Error> failure;
  std::vector<float> milliseconds;
  for (const CublasAlgorithm &algorithm : proposals) {
    auto measured = (*bench)->millisecondsOf(algorithm);
    milliseconds.push_back(measured ? *measured : kNever); // the library may refuse what it has proposed
    if (!measured)
      failure = measured.error();
  }
  auto least = std::min_element(milliseconds.begin(), milliseconds.end());
  if (*least == kNever)
    return *failure;
  bool gains = *least < kLeastGain * milliseconds.front();
  return proposals[gains ? size_t(least - milliseconds.begin()) : 0];
}

Result<Problem> problemOf(const GemmDescriptors &descriptors) {
  Problem problem{descriptors.gemm};
  const Context &context = *descriptors.context;
  DeviceNumber device = 0;
  Status status = context.check(context.driver.deviceGet(&device, context.number()), "be opened");
  struct Property {
    int *value, number;
  };
  for (auto [value, number] : {Property{&problem.major, kMajorVersion}, Property{&problem.minor, kMinorVersion},
                               Property{&problem.processors, kProcessors}})
    if (status)
      status = context.check(context.driver.deviceGetAttribute(value, number, device), "tell its properties");
  return status ? Result<Problem>(problem) : status.error();
}
} // namespace

Result<std::optional<CublasAlgorithm>> algorithmFor(GemmDescriptors &descriptors) {
  using Algorithm = std::optional<CublasAlgorithm>;
  auto proposals = descriptors.proposals();
  if (!proposals)
    return proposals.error();
  if (proposals->empty())
    return Algorithm();
  if (!descriptors.context->products.measures || proposals->size() == 1 ||
      multiplicationsOf(descriptors.gemm) < kLeastMeasured)
    return Algorithm(proposals->front());
  auto problem = problemOf(descriptors);
  if (!problem)
    return problem.error();
  static std::mutex mutex; // ranks that are threads wait, and then find what the first one has chosen
  static std::map<Problem, CublasAlgorithm> chosen;
  std::lock_guard lock(mutex);
  if (auto found = chosen.find(*problem); found != chosen.end())
    return Algorithm(found->second);
  auto best = fastest(descriptors, *proposals);
  if (!best)
    return best.error();
  chosen.emplace(*problem, *best);
  return Algorithm(*best);
}

} // namespace kerf::runtime::cuda
