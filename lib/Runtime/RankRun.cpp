// SPDX-License-Identifier: Apache-2.0
#include "RankRun.h"
#include "Flatten.h"
#include "Kernels/Common.h"
#include "Shards.h"
#include "Trace.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>

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

/// Of what stages tell each other beside the program; Shards.h has the tag before it.
constexpr int64_t kStageTag = 3;
} // namespace

struct Feed {
  const ArgSource *source = nullptr;
  BoxCopy cut;
  std::vector<std::byte> host;
  TensorView target;
};

RankRun::RankRun(const package::Program &program, const Inputs &inputs, const RunOptions &options,
                 Communicator &communicator, RankBatches batches)
    : program(program), inputs(inputs), options(options), communicator(communicator), batches(batches),
      stage(package::stageOf(program, communicator.rank())) {}
RankRun::RankRun(RankRun &&) = default;
RankRun::~RankRun() = default;

Result<RunReport> RankRun::run() {
  Clock::time_point start = Clock::now();
  device = createCpuDevice(options.threads);
  Status loaded = load();
  if (Status status = agree(communicator, loaded); !status)
    return status.error();
  RunReport report{{}, {}, executor->memory(), {}, {}, secondsSince(start), inputs.initialized, inputs.unused};
  if (Status status = gatherMemory(report); !status)
    return status.error();
  report.steps.reserve(size_t(std::clamp<int64_t>(options.steps, 0, kReservedSteps)));
  for (int64_t step = options.firstStep; step < options.firstStep + options.steps; ++step) {
    if (Status status = runStep(step, report); !status)
      return status.error();
    if (Status status = checkpoint(step + 1); !status)
      return status.error();
  }
  report.times = executor->times();
  if (!options.tracePath.empty())
    if (Status status = writeTrace(); !status)
      return status.error();
  if (!options.savePath.empty())
    if (Status status = save(); !status)
      return status.error();
  return report;
}

Status RankRun::load() {
  if (Status status = openCheckpoints(); !status)
    return status;
  auto created = Executor::create(program, *device, communicator, options.executor);
  if (!created)
    return created.error();
  executor = std::move(*created);
  for (const ArgumentPiece &piece : executor->arguments())
    if (Status status = fill(piece); !status)
      return Error{fmt::format("'{}': {}", program.args[piece.arg].name, status.error().message),
                   status.error().status};
  reader.reset(); // as long as its files are mapped, removing them frees no room
  return ok();
}

Status RankRun::openCheckpoints() {
  if (options.resume) {
    if (Status status = verifyFiles(*options.resume, communicator.rank(), communicator.size()); !status)
      return status;
    reader.emplace(*options.resume);
  }
  if (options.checkpoint.folder.empty())
    return ok();
  auto created = CheckpointWriter::create(program, options.checkpoint, communicator, options.firstStep + options.steps);
  if (!created)
    return created.error();
  writer.emplace(std::move(*created));
  return ok();
}

Status RankRun::checkpoint(int64_t nextStep) {
  if (!writer || !writer->isDue(nextStep))
    return ok();
  Clock::time_point start = Clock::now();
  std::vector<ArgumentPiece> pieces = executor->arguments();
  Status saved = writer->save(nextStep, options.seed, inputs.dataSteps, [&](size_t arg, std::byte *local) {
    auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const ArgumentPiece &each) { return each.arg == arg; });
    device->copyOut(local, static_cast<const std::byte *>(piece->tensor.data), piece->tensor.bytes());
  });
  if (saved && communicator.rank() == 0 && options.checkpoint.onSaved)
    options.checkpoint.onSaved(nextStep, secondsSince(start));
  return saved;
}

/// Gives an argument its first content.
Status RankRun::fill(const ArgumentPiece &piece) {
  const Arg &arg = program.args[piece.arg];
  const ArgSource &source = inputs.sources[piece.arg];
  const TensorView &target = piece.tensor;
  Shard shard = shardOf(program.mesh, arg.shape, arg.sharding,
                        package::virtualRank(program, communicator.rank(), piece.microbatch));
  std::vector<std::byte> host(static_cast<size_t>(target.bytes()));
  switch (source.kind) {
  case ArgSource::Kind::Tensor: {
    // Cut first, then convert: a rank never holds the whole tensor twice.
    auto [cut, bytes] = allocateTensor(source.tensor.dtype, shard.local);
    cutShard(arg.shape, shard, bytesOf(source.tensor.dtype)).run(source.tensor.data, bytes);
    auto converted = convertTensor(cut, arg.dtype);
    if (!converted)
      return converted.error();
    std::memcpy(host.data(), converted->data, host.size());
    break;
  }
  case ArgSource::Kind::Resume:
    if (Status status = reader->read(arg, shard, host.data()); !status)
      return status;
    break;
  case ArgSource::Kind::Initialize:
    initializeParameter(options.seed, arg.name, arg.shape, shard, {host.data(), arg.dtype, shard.local});
    break;
  case ArgSource::Kind::Seed:
    std::memcpy(host.data(), &options.seed, sizeof(options.seed));
    break;
  case ArgSource::Kind::Zeros:
    break;
  case ArgSource::Kind::Data:
    feeds.push_back({&source, cutShard(arg.shape, shard, bytesOf(arg.dtype)), std::move(host), target});
    return ok();
  case ArgSource::Kind::LearningRate:
  case ArgSource::Kind::Step:
    feeds.push_back({&source, {}, std::move(host), target});
    return ok();
  }
  device->copyIn(static_cast<std::byte *>(target.data), host.data(), target.bytes());
  return ok();
}

/// Gives the step its batch, number and learning rate.
Status RankRun::feed(BatchReader &reader, int64_t step, double learningRate) {
  auto batch = reader.next(batches.user);
  if (!batch)
    return batch.error();
  for (Feed &feed : feeds) {
    if (feed.source->kind == ArgSource::Kind::Data)
      feed.cut.run((**batch)[feed.source->input], feed.host.data());
    else
      writeScalar(feed.target.dtype, feed.source->kind == ArgSource::Kind::Step ? double(step) : learningRate,
                  feed.host.data());
    device->copyIn(static_cast<std::byte *>(feed.target.data), feed.host.data(), feed.target.bytes());
  }
  reader.release(batches.user);
  return ok();
}

Status RankRun::runStep(int64_t step, RunReport &report) {
  Clock::time_point start = Clock::now();
  double learningRate = options.learningRate(step);
  if (Status status = feed(batches.training, step, learningRate); !status) {
    Error error{fmt::format("step {}: {}", step, status.error().message), status.error().status};
    communicator.abort(error);
    return error;
  }
  if (Status status = executor->step(); !status)
    return Error{fmt::format("step {}: {}", step, status.error().message), status.error().status};
  double loss = 0;
  if (Status status = shareLoss(loss); !status)
    return Error{fmt::format("step {}: {}", step, status.error().message), status.error().status};
  report.steps.push_back({step, loss, learningRate, secondsSince(start)});
  if (step == options.firstStep)
    if (Status status = gatherResults(report); !status)
      return status;
  if (communicator.rank() == 0 && options.onStep)
    options.onStep(report.steps.back());
  return ok();
}

/// Every rank of the stage that has the loss tells its peers on the others.
Status RankRun::shareLoss(double &loss) {
  if (auto local = executor->result(size_t(inputs.lossResult))) {
    alignas(8) std::byte bytes[8];
    device->copyOut(bytes, static_cast<const std::byte *>(local->data), bytesOf(local->dtype));
    loss = kernels::readScalar({bytes, local->dtype, {}});
  }
  int64_t home = program.results[size_t(inputs.lossResult)].stage, stages = package::stagesOf(program);
  if (home < 0 || stages == 1)
    return ok();
  if (stage != home)
    return communicator.receive(std::as_writable_bytes(std::span(&loss, 1)),
                                package::rankOnStage(program, communicator.rank(), home), kStageTag);
  for (int64_t other = 0; other < stages; ++other)
    if (other != home)
      if (Status sent = communicator.startSend(std::as_bytes(std::span(&loss, 1)),
                                               package::rankOnStage(program, communicator.rank(), other), kStageTag);
          !sent)
        return sent;
  return communicator.finishSends(kStageTag);
}

/// The first rank of each stage tells rank 0.
Status RankRun::gatherMemory(RunReport &report) {
  int64_t rank = communicator.rank();
  if (rank != 0 && rank != package::rankOnStage(program, 0, stage))
    return ok();
  if (rank != 0) {
    if (Status sent = communicator.startSend(std::as_bytes(std::span(&report.memory, 1)), 0, kStageTag); !sent)
      return sent;
    return communicator.finishSends(kStageTag);
  }
  report.stageMemory.assign(size_t(package::stagesOf(program)), report.memory);
  for (int64_t other = 0; other < package::stagesOf(program); ++other)
    if (other != stage)
      if (Status received =
              communicator.receive(std::as_writable_bytes(std::span(&report.stageMemory[size_t(other)], 1)),
                                   package::rankOnStage(program, 0, other), kStageTag);
          !received)
        return received;
  return ok();
}

/// On rank 0, what the ranks of `stage` hold.
Result<std::optional<Tensor>> RankRun::gather(const std::optional<TensorView> &local, DType dtype, const Shape &shape,
                                              const Sharding &sharding, int64_t stage) {
  std::vector<std::byte> host;
  if (local) {
    host.resize(size_t(local->bytes()));
    device->copyOut(host.data(), static_cast<const std::byte *>(local->data), local->bytes());
  }
  return gatherShards(communicator, program, stage, shape, sharding, dtype, host.data());
}

Status RankRun::gatherResults(RunReport &report) {
  std::vector<bool> replaces(program.results.size(), false);
  for (const Arg &arg : program.args)
    if (arg.updatedBy >= 0)
      replaces[size_t(arg.updatedBy)] = true;
  for (size_t r = 0; r < program.results.size(); ++r) {
    if (replaces[r])
      continue;
    const package::EntryResult &result = program.results[r];
    auto whole = gather(executor->result(r), resultType(program, r), result.shape, result.sharding,
                        std::max<int64_t>(result.stage, 0));
    if (!whole)
      return whole.error();
    if (*whole)
      report.firstResults.emplace(result.name, std::move(**whole));
  }
  return ok();
}

Result<std::optional<Tensor>> RankRun::gatherArgument(size_t index, const std::vector<ArgumentPiece> &pieces) {
  const Arg &arg = program.args[index];
  int64_t stages = package::stagesOf(program), holder = 0;
  while (holder < stages && !hasArg(program, index, holder))
    ++holder;
  if (holder == stages) { // nobody uses it: it is what it was
    if (communicator.rank() != 0)
      return std::optional<Tensor>();
    auto converted = convertTensor(inputs.sources[index].tensor, arg.dtype);
    if (!converted)
      return converted.error();
    return std::optional<Tensor>(*converted);
  }
  std::optional<TensorView> local;
  for (const ArgumentPiece &piece : pieces)
    if (piece.arg == index)
      local = piece.tensor;
  return gather(local, arg.dtype, arg.shape, arg.sharding, holder);
}

Status RankRun::writeTrace() {
  auto text = chromeTrace(communicator, stage, executor->lastStep(), executor->lastOverlap());
  if (!text)
    return text.error();
  return agree(communicator, communicator.rank() == 0 ? writeFile(options.tracePath, *text) : ok());
}

Status RankRun::save() {
  TensorMap tensors;
  std::vector<ArgumentPiece> pieces = executor->arguments();
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    bool saved = arg.kind == ArgKind::Parameter || arg.kind == ArgKind::Buffer ||
                 (arg.kind == ArgKind::State && options.saveStates);
    if (!saved)
      continue;
    auto whole = gatherArgument(i, pieces);
    if (!whole)
      return whole.error();
    if (!*whole)
      continue;
    (*whole)->shape = arg.exportedShape;
    tensors.emplace(arg.name, std::move(**whole));
  }
  return agree(communicator, communicator.rank() == 0 ? writeSafetensors(options.savePath, tensors) : ok());
}

} // namespace kerf::runtime
