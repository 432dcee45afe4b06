// SPDX-License-Identifier: Apache-2.0
#include "Collectives.h"
#include "KernelTimer.h"

#include "kerf/Runtime/Cpu/Collectives.h"
#include <algorithm>
#include <barrier>
#include <chrono>
#include <fmt/format.h>
#include <thread>

using namespace kerf;
using namespace kerf::profile;

namespace {

constexpr int kRounds = 10;
constexpr double kLeastCollectiveSeconds = 1e-6; // smallest result; shorter times are noise

} // namespace

CollectiveShapes kerf::profile::collectiveShapes(Collective collective, int64_t ranks, int64_t bytes) {
  int64_t elements = bytes / 4;
  CollectiveShapes shapes;
  shapes.attrs["axes"] = {0, 1, ranks};
  switch (collective) {
  case Collective::AllGather:
    shapes.from = {elements / ranks}, shapes.to = {elements};
    shapes.attrs["dim"] = 0;
    break;
  case Collective::ReduceScatter:
    shapes.from = {elements}, shapes.to = {elements / ranks};
    shapes.attrs["dim"] = 0;
    shapes.attrs["kind"] = "sum";
    break;
  case Collective::AllToAll:
    shapes.from = {ranks, elements / ranks}, shapes.to = {ranks * ranks, elements / ranks / ranks};
    shapes.attrs["dim"] = 0;
    shapes.attrs["other_dim"] = 1;
    break;
  default:
    shapes.from = shapes.to = {elements};
    shapes.attrs["kind"] = "sum";
  }
  return shapes;
}

namespace {

/// Returns the work of a rank between two collectives: about 0.1 ms of one core.
KernelSpec workBetween() { return productSpec(192, 192, 160); }

/// One rank: binds its kernels once and then makes the requested number of calls.
class Rank {
public:
  Status bind(Collective collective, const CollectiveShapes &shapes, const Mesh &mesh,
              runtime::Communicator &communicator) {
    instruction.op = std::string(toString(collective));
    instruction.attrs = shapes.attrs;
    runtime::CollectiveRequest request{{instruction,
                                        {memory.tensor({DType::F32, shapes.from})},
                                        {memory.tensor({DType::F32, shapes.to})},
                                        mesh,
                                        communicator.rank(),
                                        nullptr},
                                       runtime::kFirstCollectiveTag};
    auto scratchBytes = runtime::collectiveScratchBytes(request);
    if (!scratchBytes)
      return scratchBytes.error();
    request.bind.scratch = memory.bytes(*scratchBytes);
    auto bound = runtime::bindCollective(request, communicator);
    if (!bound)
      return bound.error();
    kernel = std::move(*bound);
    communicator.reserve(runtime::kMessagesToPeer * size_t(communicator.size()));
    return bindWork(mesh);
  }
  enum class Calls { Work, WorkAndCollective };
  Status run(int64_t count, Calls calls) const {
    for (int64_t call = 0; call < count; ++call) {
      if (Status status = work(); !status)
        return status;
      if (calls == Calls::Work)
        continue;
      if (Status status = kernel(); !status)
        return status;
    }
    return ok();
  }

private:
  Status bindWork(const Mesh &mesh) {
    KernelSpec spec = workBetween();
    workInstruction.op = spec.op;
    workInstruction.attrs = spec.attrs;
    runtime::BindRequest request{workInstruction, {}, {}, mesh, 0, nullptr};
    for (const TensorSpec &operand : spec.operands)
      request.operands.push_back(memory.tensor(operand));
    for (const TensorSpec &result : spec.results)
      request.results.push_back(memory.tensor(result));
    auto scratchBytes = runtime::scratchBytes(request);
    if (!scratchBytes)
      return scratchBytes.error();
    request.scratch = memory.bytes(*scratchBytes);
    auto bound = runtime::bindKernel(request);
    if (!bound)
      return bound.error();
    work = std::move(*bound);
    return ok();
  }

  package::Instruction instruction, workInstruction;
  TensorMemory memory;
  runtime::Kernel kernel, work;
};

} // namespace

Result<CollectiveSample> kerf::profile::measureCollective(Collective collective, int64_t ranks, int64_t bytes,
                                                          double budgetSeconds) {
  Mesh mesh{{{"data", ranks}}};
  int64_t cuts = 4 * ranks * ranks; // an all-to-all cuts both dimensions of its f32 tensor
  bytes = std::max<int64_t>(1, bytes / cuts) * cuts;
  CollectiveShapes shapes = collectiveShapes(collective, ranks, bytes);
  std::vector<std::unique_ptr<runtime::Communicator>> communicators = runtime::createThreadCommunicators(ranks);
  std::vector<Rank> all(static_cast<size_t>(ranks));
  for (size_t r = 0; r < all.size(); ++r)
    if (Status status = all[r].bind(collective, shapes, mesh, *communicators[r]); !status)
      return Error{"profile: " + status.error().message, ExitStatus::InternalCheck};
  // Runs one round and returns the seconds of a call until the last rank is done. All ranks make the same number of
  // calls, so that no rank waits for one that has left.
  std::optional<Error> failure;
  auto round = [&](int64_t count, Rank::Calls calls) {
    std::vector<Status> statuses(all.size(), ok());
    std::vector<double> seconds(all.size());
    std::barrier start(static_cast<std::ptrdiff_t>(all.size()));
    std::vector<std::thread> threads;
    for (size_t r = 0; r < all.size(); ++r)
      threads.emplace_back([&, r] {
        start.arrive_and_wait();
        Clock::time_point begin = Clock::now();
        statuses[r] = all[r].run(count, calls);
        seconds[r] = secondsSince(begin);
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const Status &status : statuses)
      if (!status)
        failure = status.error();
    return *std::max_element(seconds.begin(), seconds.end()) / static_cast<double>(count);
  };
  double once = round(3, Rank::Calls::WorkAndCollective);
  auto count = std::clamp<int64_t>(int64_t(budgetSeconds / (2 * kRounds) / std::max(once, 1e-7)), 4, 100000);
  std::vector<double> with, without;
  for (int r = 0; r < kRounds && !failure; ++r) {
    with.push_back(round(count, Rank::Calls::WorkAndCollective));
    without.push_back(round(count, Rank::Calls::Work));
  }
  if (failure)
    return Error{"profile: " + failure->message, ExitStatus::InternalCheck};
  double seconds = std::max(percentile30(with) - percentile30(without), kLeastCollectiveSeconds);
  return CollectiveSample{collective, ranks, static_cast<double>(bytes), seconds};
}
