// SPDX-License-Identifier: Apache-2.0
#include "Collectives.h"
#include "KernelTimer.h"

#include "kerf/Runtime/Collectives.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

using namespace kerf;
using namespace kerf::profile;

namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int kRounds = 10;

struct Shapes {
  Shape from, to;
  nlohmann::ordered_json attrs;
};

/// Local tensors of float32 that make `bytes` what the collective's price is of.
Shapes shapesOf(Collective collective, int64_t ranks, int64_t bytes) {
  int64_t elements = bytes / 4;
  Shapes shapes;
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

/// One rank: binds, then makes as many rounds of `calls` calls as are asked for.
class Rank {
public:
  Status bind(Collective collective, const Shapes &shapes, const Mesh &mesh, runtime::Communicator &communicator) {
    instruction.op = std::string(toString(collective));
    instruction.attrs = shapes.attrs;
    runtime::CollectiveRequest request{{instruction,
                                        {memory.tensor({DType::F32, shapes.from})},
                                        {memory.tensor({DType::F32, shapes.to})},
                                        mesh,
                                        communicator.rank(),
                                        nullptr},
                                       &communicator,
                                       runtime::kFirstCollectiveTag};
    auto scratchBytes = runtime::collectiveScratchBytes(request);
    if (!scratchBytes)
      return scratchBytes.error();
    request.bind.scratch = memory.bytes(*scratchBytes);
    auto bound = runtime::bindCollective(request);
    if (!bound)
      return bound.error();
    kernel = std::move(*bound);
    communicator.reserve(runtime::kMessagesToPeer * size_t(communicator.size()));
    return ok();
  }
  Status run(int64_t calls) const {
    for (int64_t call = 0; call < calls; ++call)
      if (Status status = kernel(); !status)
        return status;
    return ok();
  }

private:
  package::Instruction instruction;
  Memory memory;
  runtime::Kernel kernel;
};

} // namespace

Result<CollectiveSample> kerf::profile::measureCollective(Collective collective, int64_t ranks, int64_t bytes,
                                                          double budgetSeconds) {
  Mesh mesh{{{"data", ranks}}};
  Shapes shapes = shapesOf(collective, ranks, bytes);
  std::vector<std::unique_ptr<runtime::Communicator>> communicators = runtime::createThreadCommunicators(ranks);
  std::vector<Rank> all(static_cast<size_t>(ranks));
  for (size_t r = 0; r < all.size(); ++r)
    if (Status status = all[r].bind(collective, shapes, mesh, *communicators[r]); !status)
      return Error{"profile: " + status.error().message, ExitStatus::InternalCheck};
  // All ranks make the same number of calls, so that nobody waits for one that has left: one round by itself says how
  // many fit.
  std::optional<Error> failure;
  std::vector<double> seconds;
  auto rounds = [&](int count, int64_t calls) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < all.size(); ++r)
      threads.emplace_back([&, r] {
        for (int round = 0; round < count; ++round) {
          Clock::time_point start = Clock::now();
          Status status = all[r].run(calls);
          if (r != 0)
            continue;
          seconds.push_back(secondsSince(start) / static_cast<double>(calls));
          if (!status)
            failure = status.error();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  };
  rounds(1, 3);
  int64_t calls = std::clamp<int64_t>(int64_t(budgetSeconds / kRounds / std::max(seconds[0], 1e-7)), 1, 100000);
  seconds.clear();
  rounds(kRounds, calls);
  if (failure)
    return Error{"profile: " + failure->message, ExitStatus::InternalCheck};
  return CollectiveSample{collective, ranks, static_cast<double>(bytes), quickThird(seconds)};
}
