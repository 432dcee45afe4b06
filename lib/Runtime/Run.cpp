// SPDX-License-Identifier: Apache-2.0
// A run: inputs are found and checked once, then every rank (a thread, or this process) loads its program, fills its
// arguments and steps.
#include "kerf/Runtime/Run.h"
#include "Inputs.h"
#include "Kernels/Common.h"
#include "Shards.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

namespace kerf::runtime {

namespace {
using package::Arg;
using package::ArgKind;
using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A scalar of any element type.
void writeScalar(DType dtype, double value, std::byte *bytes) {
  auto put = [&](auto typed) { std::memcpy(bytes, &typed, sizeof(typed)); };
  switch (dtype) {
  case DType::F64:
    return put(value);
  case DType::F32:
    return put(float(value));
  case DType::BF16:
    return put(bf16FromFloat(float(value)));
  case DType::F16:
    return put(f16FromFloat(float(value)));
  case DType::I64:
    return put(int64_t(value));
  case DType::I32:
    return put(int32_t(value));
  default:
    return put(int8_t(value));
  }
}

/// Results of so many steps have their memory before the first: 32 MiB of addresses, in use as steps go by.
constexpr int64_t kReservedSteps = int64_t(1) << 20;

/// An input's next batch: cut from the array of all steps into host memory, then moved to the device.
struct Feed {
  const ArgSource *source = nullptr;
  BoxCopy cut;
  int64_t stepBytes = 0;
  std::vector<std::byte> host;
  TensorView target;
};

class RankRun {
public:
  RankRun(const package::Program &program, const Inputs &inputs, const RunOptions &options, Communicator &communicator)
      : program(program), inputs(inputs), options(options), communicator(communicator) {}

  Result<RunReport> run() {
    Clock::time_point start = Clock::now();
    device = createCpuDevice();
    Status loaded = load();
    if (Status status = agree(communicator, loaded); !status)
      return status.error();
    RunReport report{{}, {}, executor->memory(), {}, secondsSince(start), inputs.initialized, inputs.unused};
    report.steps.reserve(size_t(std::clamp<int64_t>(options.steps, 0, kReservedSteps)));
    for (int64_t step = options.firstStep; step < options.firstStep + options.steps; ++step)
      if (Status status = runStep(step, report); !status)
        return status.error();
    report.times = executor->times();
    if (!options.savePath.empty())
      if (Status status = save(); !status)
        return status.error();
    return report;
  }

private:
  Status load() {
    auto created = Executor::create(program, *device, communicator, options.executor);
    if (!created)
      return created.error();
    executor = std::move(*created);
    for (size_t i = 0; i < program.args.size(); ++i)
      if (Status status = fill(i); !status)
        return Error{fmt::format("'{}': {}", program.args[i].name, status.error().message), status.error().status};
    return ok();
  }

  /// Gives argument `index` its first content.
  Status fill(size_t index) {
    const Arg &arg = program.args[index];
    const ArgSource &source = inputs.sources[index];
    TensorView target = executor->argument(index);
    Shard shard = shardOf(program.mesh, arg.shape, arg.sharding, communicator.rank());
    std::vector<std::byte> host(static_cast<size_t>(target.bytes()));
    switch (source.kind) {
    case ArgSource::Kind::Tensor: {
      // Cut first, then convert: a rank never holds the whole tensor twice.
      auto [piece, bytes] = allocateTensor(source.tensor.dtype, shard.local);
      cutShard(arg.shape, shard, bytesOf(source.tensor.dtype)).run(source.tensor.data, bytes);
      auto converted = convertTensor(piece, arg.dtype);
      if (!converted)
        return converted.error();
      std::memcpy(host.data(), converted->data, host.size());
      break;
    }
    case ArgSource::Kind::Initialize:
      initializeParameter(options.seed, arg.name, arg.shape, shard, {host.data(), arg.dtype, shard.local});
      break;
    case ArgSource::Kind::Zeros:
      break;
    case ArgSource::Kind::Data: {
      int64_t stepBytes = elementsOf(arg.shape) * bytesOf(arg.dtype);
      feeds.push_back({&source, cutShard(arg.shape, shard, bytesOf(arg.dtype)), stepBytes, std::move(host), target});
      return ok();
    }
    case ArgSource::Kind::LearningRate:
    case ArgSource::Kind::Step:
      feeds.push_back({&source, {}, 0, std::move(host), target});
      return ok();
    }
    device->copyIn(static_cast<std::byte *>(target.data), host.data(), target.bytes());
    return ok();
  }

  void feed(int64_t step, double learningRate) {
    for (Feed &feed : feeds) {
      if (feed.source->kind == ArgSource::Kind::Data)
        feed.cut.run(feed.source->tensor.data + (step % inputs.dataSteps) * feed.stepBytes, feed.host.data());
      else
        writeScalar(feed.target.dtype, feed.source->kind == ArgSource::Kind::Step ? double(step) : learningRate,
                    feed.host.data());
      device->copyIn(static_cast<std::byte *>(feed.target.data), feed.host.data(), feed.target.bytes());
    }
  }

  Status runStep(int64_t step, RunReport &report) {
    Clock::time_point start = Clock::now();
    double learningRate = options.learningRate(step);
    feed(step, learningRate);
    if (Status status = executor->step(); !status)
      return Error{fmt::format("step {}: {}", step, status.error().message), status.error().status};
    TensorView loss = executor->result(size_t(inputs.lossResult));
    alignas(8) std::byte bytes[8];
    device->copyOut(bytes, static_cast<const std::byte *>(loss.data), bytesOf(loss.dtype));
    report.steps.push_back({step, kernels::readScalar({bytes, loss.dtype, {}}), learningRate, secondsSince(start)});
    if (step == options.firstStep)
      if (Status status = gatherResults(report); !status)
        return status;
    if (communicator.rank() == 0 && options.onStep)
      options.onStep(report.steps.back());
    return ok();
  }

  /// The local tensor in host memory.
  Result<std::optional<Tensor>> gather(const TensorView &local, const Shape &shape, const Sharding &sharding) {
    std::vector<std::byte> host(static_cast<size_t>(local.bytes()));
    device->copyOut(host.data(), static_cast<const std::byte *>(local.data), local.bytes());
    return gatherShards(communicator, program.mesh, shape, sharding, {host.data(), local.dtype, local.shape});
  }

  Status gatherResults(RunReport &report) {
    std::vector<bool> replaces(program.results.size(), false);
    for (const Arg &arg : program.args)
      if (arg.updatedBy >= 0)
        replaces[size_t(arg.updatedBy)] = true;
    for (size_t r = 0; r < program.results.size(); ++r) {
      if (replaces[r])
        continue;
      auto whole = gather(executor->result(r), program.results[r].shape, program.results[r].sharding);
      if (!whole)
        return whole.error();
      if (*whole)
        report.firstResults.emplace(program.results[r].name, std::move(**whole));
    }
    return ok();
  }

  Status save() {
    TensorMap tensors;
    for (size_t i = 0; i < program.args.size(); ++i) {
      const Arg &arg = program.args[i];
      bool saved = arg.kind == ArgKind::Parameter || arg.kind == ArgKind::Buffer ||
                   (arg.kind == ArgKind::State && options.saveStates);
      if (!saved)
        continue;
      auto whole = gather(executor->argument(i), arg.shape, arg.sharding);
      if (!whole)
        return whole.error();
      if (!*whole)
        continue;
      (*whole)->shape = arg.exportedShape;
      tensors.emplace(arg.name, std::move(**whole));
    }
    return agree(communicator, communicator.rank() == 0 ? writeSafetensors(options.savePath, tensors) : ok());
  }

  const package::Program &program;
  const Inputs &inputs;
  const RunOptions &options;
  Communicator &communicator;
  std::unique_ptr<Device> device;
  std::unique_ptr<Executor> executor;
  std::vector<Feed> feeds;
};

/// The rank's run; whatever it throws ends all ranks with a message.
Result<RunReport> guarded(RankRun &rank, Communicator &communicator) {
  try {
    return rank.run();
  } catch (const std::exception &exception) {
    Error error{fmt::format("rank {}: {}", communicator.rank(), exception.what()), ExitStatus::InternalCheck};
    communicator.abort(error);
    return error;
  }
}

Result<RunReport> runThreads(const package::Program &program, const Inputs &inputs, const RunOptions &options) {
  auto communicators = createThreadCommunicators(program.mesh.ranks());
  std::vector<RankRun> ranks; // outlive the threads: one rank's messages are copied from another's memory
  for (auto &communicator : communicators)
    ranks.emplace_back(program, inputs, options, *communicator);
  std::vector<std::thread> workers;
  std::vector<std::optional<Error>> failures(ranks.size());
  for (size_t r = 1; r < ranks.size(); ++r)
    workers.emplace_back([&, r] {
      if (auto report = guarded(ranks[r], *communicators[r]); !report)
        failures[r] = report.error();
    });
  auto report = guarded(ranks[0], *communicators[0]);
  for (std::thread &worker : workers)
    worker.join();
  if (auto failure = communicators[0]->failure())
    return *failure;
  for (const auto &failure : failures)
    if (report && failure)
      return *failure;
  return report;
}

Status checkWritable(const std::string &path) {
  if (path.empty())
    return ok();
  std::string folder = std::filesystem::path(path).parent_path().string();
  folder = folder.empty() ? "." : folder;
  if (access(folder.c_str(), W_OK) != 0)
    return Error{fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
  return ok();
}
} // namespace

Status checkInputs(const package::Program &program, const TensorMap &weights, const TensorMap &data) {
  auto inputs = findInputs(program, weights, data);
  if (!inputs)
    return inputs.error();
  return ok();
}

Result<RunReport> run(const package::Program &program, const TensorMap &weights, const TensorMap &data,
                      const RunOptions &options) {
  int64_t ranks = program.mesh.ranks();
  auto inputs = findInputs(program, weights, data);
  Status ready = inputs ? checkWritable(options.savePath) : Status(inputs.error());
  if (ready && options.communicator && options.communicator->size() != ranks)
    ready = Error{fmt::format("the program is for {} ranks, but {} processes were started: mpirun -n {}", ranks,
                              options.communicator->size(), ranks)};
  if (!options.communicator) {
    if (!ready)
      return ready.error();
    return runThreads(program, *inputs, options);
  }
  if (Status status = agree(*options.communicator, ready); !status)
    return status.error();
  RankRun rank(program, *inputs, options, *options.communicator);
  return guarded(rank, *options.communicator);
}

Result<LoadedPackage> loadPackage(const std::string &folder) {
  std::filesystem::path path(folder);
  auto bytes = readFile((path / package::kProgramFile).string());
  if (!bytes)
    return bytes.error();
  auto program = package::readProgram(*bytes);
  if (!program)
    return Error{fmt::format("'{}': {}", (path / package::kProgramFile).string(), program.error().message)};
  LoadedPackage loaded{std::move(*program), {}};
  std::error_code code;
  if (!std::filesystem::exists(path / package::kWeightsFile, code))
    return loaded;
  auto weights = readTensors((path / package::kWeightsFile).string());
  if (!weights)
    return weights.error();
  loaded.weights = std::move(*weights);
  return loaded;
}

} // namespace kerf::runtime
