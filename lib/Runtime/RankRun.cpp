// SPDX-License-Identifier: Apache-2.0
#include "RankRun.h"
#include "Scalar.h"
#include "Shards.h"
#include "StepControl.h"
#include "Trace.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/FlatProgram.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace kerf::runtime {

namespace {
using package::Arg;
using package::ArgKind;
using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Results of so many steps have their memory before the first: 32 MiB of addresses, in use as steps go by.
constexpr int64_t kReservedSteps = int64_t(1) << 20;

/// Of what stages tell each other beside the program; Shards.h has the tag before it.
constexpr int64_t kStageTag = 3;
} // namespace

struct Feed {
  const ArgSource *source = nullptr;
  BoxCopy cut;
  std::shared_ptr<std::byte> host; // that streams copy from
  TensorView target;
};

RankRun::RankRun(const package::Program &program, const Inputs &inputs, const RunOptions &options,
                 Communicator &communicator, RankBatches batches)
    : program(program), inputs(inputs), options(options), communicator(communicator), batches(batches),
      stage(package::stageOf(program, communicator.rank())) {}
RankRun::RankRun(RankRun &&) = default;
RankRun::~RankRun() = default;

Result<RunReport> RankRun::run() {
  RunReport report;
  if (Status status = start(report); !status)
    return status.error();
  report.steps.reserve(size_t(std::clamp<int64_t>(options.steps, 0, kReservedSteps)));
  bool isFirstHere = communicator.rank() == 0 || options.communicator; // of its process
  if (isFirstHere && options.onStart)
    options.onStart();
  int64_t number = options.firstStep;
  for (; number < options.firstStep + options.steps && !report.stoppedBy; ++number) {
    StepResult result;
    result.step = number;
    auto end = step(result);
    if (!end)
      return end.error();
    if (Status status = record(result, *end, report); !status)
      return status.error();
    if (evaluatesAfter(number))
      if (Status status = evaluateAfter(number, report); !status)
        return status.error();
    if (Status status = checkpoint(number + 1, report.stoppedBy != 0); !status)
      return told(status.error());
  }
  report.skippedSteps = skippedSteps;
  report.times = executor->times();
  if (!options.savePath.empty() || options.saveTo)
    if (Status status = saveTrained(number); !status)
      return told(status.error());
  if (!options.tracePath.empty())
    if (Status status = writeTrace(); !status)
      return told(status.error());
  return report;
}

Status RankRun::start(RunReport &report) {
  Clock::time_point begin = Clock::now();
  Status loaded = load();
  if (Status status = agree(communicator, loaded); !status)
    return told(status.error());
  report.memory = executor->memory();
  report.loadSeconds = secondsSince(begin);
  report.initialized = inputs.initialized;
  report.unused = inputs.unused;
  return gatherMemory(report);
}

/// Rank 0 tells an error that all ranks have.
Error RankRun::told(Error error) const {
  if (communicator.rank() != 0)
    error.message.clear();
  return error;
}

std::string RankRun::lastCheckpointText() const {
  if (options.checkpoint.folder.empty())
    return options.resume ? fmt::format("the checkpoint that it began with is '{}'", options.resume->folder)
                          : "no checkpoint was asked for (<checkpoint>)";
  if (!lastCheckpoint)
    return "no checkpoint was written";
  return fmt::format("the last checkpoint is '{}/{}'", options.checkpoint.folder, checkpointName(*lastCheckpoint));
}

Error RankRun::nonfiniteLoss(const StepResult &step) const {
  return {fmt::format("step {}: the loss is {}; nothing of this step was kept, and {}. Look for infinite or missing "
                      "numbers in the data, lower <lr> or give <clip-norm>; <on-nan> skip leaves such steps out, "
                      "<on-nan> continue goes on",
                      step.step, step.loss, lastCheckpointText())};
}

Result<StepEnd> RankRun::step(StepResult &result) {
  if (options.onNan == OnNan::Skip)
    if (Status status = guard->keep(); !status)
      return status.error();
  if (Status status = runStep(result); !status)
    return status.error();
  return judge(result);
}

/// All ranks learn whether the step counts and whether a signal asks to end.
Result<StepEnd> RankRun::judge(StepResult &step) {
  uint64_t flags = options.stopSignal ? flagOfSignal(options.stopSignal()) : 0;
  bool isNonfinite = !std::isfinite(step.loss);
  if (options.onNan == OnNan::Skip && !isNonfinite) {
    auto name = guard->firstNonfinite();
    if (!name)
      return name.error();
    isNonfinite = !name->empty();
  }
  if (isNonfinite)
    flags |= kNonfiniteFlag;
  auto combined = combineFlags(communicator, flags, kStageTag);
  if (!combined)
    return Error{fmt::format("step {}: {}", step.step, combined.error().message), combined.error().status};
  if (*combined & kNonfiniteFlag && options.onNan == OnNan::Skip) {
    if (Status status = guard->putBack(); !status)
      return status.error();
    step.skipped = true;
    ++skippedSteps;
  }
  StepEnd end{signalOfFlags(*combined), std::nullopt};
  if (*combined & kNonfiniteFlag && options.onNan == OnNan::Stop)
    end.nonfinite = told(nonfiniteLoss(step));
  return end;
}

/// Puts the step into the report, and rank 0 tells of it.
Status RankRun::record(const StepResult &step, const StepEnd &end, RunReport &report) {
  report.stoppedBy = end.signal;
  report.steps.push_back(step);
  if (step.step == options.firstStep)
    if (Status status = gatherResults(report); !status)
      return status;
  if (communicator.rank() == 0 && options.onStep)
    if (Status status = options.onStep(step); !status) {
      communicator.abort(status.error());
      return status;
    }
  return end.nonfinite ? Status(*end.nonfinite) : ok();
}

Status RankRun::load() {
  auto opened = createDevice(options.device, {.threads = options.threads, .rank = communicator.rank()});
  if (!opened)
    return opened.error();
  device = std::move(*opened);
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
  if (options.onNan != OnNan::Continue)
    guard.emplace(program, communicator.rank(), *device, executor->arguments());
  return ok();
}

Status RankRun::openCheckpoints() {
  if (options.resume) {
    if (Status status = verifyFiles(*options.resume, communicator.rank(), communicator.size()); !status)
      return status;
    reader.emplace(*options.resume);
    skippedSteps = options.resume->index.skippedSteps;
  }
  if (options.checkpoint.folder.empty())
    return ok();
  auto created = CheckpointWriter::create(program, options.checkpoint, communicator, options.firstStep + options.steps);
  if (!created)
    return created.error();
  writer.emplace(std::move(*created));
  return ok();
}

/// Numbers that are not finite would be trained on for ever: they are written nowhere.
Status RankRun::checkFinite(int64_t nextStep) {
  if (options.onNan != OnNan::Stop)
    return ok();
  auto found = guard->firstNonfinite();
  if (!found || found->empty())
    return agree(communicator, found ? ok() : Status(found.error()));
  return agree(communicator,
               Error{fmt::format("step {}: the loss is finite, but '{}' holds an infinite number or a NaN after it, "
                                 "which is written nowhere; {}. Lower <lr> or give <clip-norm>; <on-nan> skip leaves "
                                 "such steps out, <on-nan> continue writes them",
                                 nextStep - 1, *found, lastCheckpointText())});
}

/// `isLast`: the run ends before it is at its last step.
Status RankRun::checkpoint(int64_t nextStep, bool isLast) {
  if (!writer || !(isLast || writer->isDue(nextStep)))
    return ok();
  if (Status status = checkFinite(nextStep); !status)
    return status;
  Clock::time_point start = Clock::now();
  Status saved = write(*writer, nextStep);
  if (saved)
    lastCheckpoint = nextStep;
  if (saved && communicator.rank() == 0 && options.checkpoint.onSaved)
    options.checkpoint.onSaved(nextStep, secondsSince(start));
  return saved;
}

Status RankRun::write(CheckpointWriter &to, int64_t nextStep) {
  std::vector<ArgumentPiece> pieces = executor->arguments();
  TrainingPosition at{nextStep, options.seed, inputs.dataSteps, skippedSteps};
  return to.save(at, [&](size_t arg, std::byte *local) {
    auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const ArgumentPiece &each) { return each.arg == arg; });
    return device->copyOut(local, piece->tensor.data, piece->tensor.bytes());
  });
}

Status RankRun::save(const CheckpointOptions &to, int64_t nextStep) {
  auto created = CheckpointWriter::create(program, to, communicator, nextStep);
  if (Status status = agree(communicator, created ? ok() : Status(created.error())); !status)
    return told(status.error());
  Status saved = write(*created, nextStep);
  return saved ? saved : Status(told(saved.error()));
}

Status RankRun::restore(const Checkpoint &from) {
  Status verified = verifyFiles(from, communicator.rank(), communicator.size());
  if (Status status = agree(communicator, verified); !status)
    return told(status.error());
  ShardReader files(from);
  Status read = ok();
  for (const ArgumentPiece &piece : executor->arguments()) {
    const bool isSeed = inputs.sources[piece.arg].kind == ArgSource::Kind::Seed;
    if (read && (isSeed || isSaved(program, piece.arg)))
      read = isSeed ? fill(piece) : fillSaved(piece, files);
  }
  skippedSteps = from.index.skippedSteps;
  Status all = agree(communicator, read);
  if (!all) // some tensors are the checkpoint's, some are not
    communicator.abort(all.error());
  return all ? all : Status(told(all.error()));
}

Status RankRun::assign(const TensorMap &tensors) {
  Status assigned = ok();
  for (const ArgumentPiece &piece : executor->arguments())
    if (auto found = tensors.find(program.args[piece.arg].name); found != tensors.end() && assigned)
      assigned = fillCut(piece, found->second);
  Status all = agree(communicator, assigned);
  if (!all)
    communicator.abort(all.error());
  return all ? all : Status(told(all.error()));
}

/// True of what every step gets anew.
static bool isFed(const ArgSource &source) {
  return source.kind == ArgSource::Kind::Data || source.kind == ArgSource::Kind::LearningRate ||
         source.kind == ArgSource::Kind::RateFactor || source.kind == ArgSource::Kind::Step;
}

/// The part of an argument that the piece is.
Shard RankRun::shardOfPiece(const ArgumentPiece &piece) const {
  const Arg &arg = program.args[piece.arg];
  return shardOf(program.mesh, arg.shape, arg.sharding,
                 package::virtualRank(program, communicator.rank(), piece.microbatch));
}

/// Cut first, then converted: a rank never holds the whole tensor twice.
Status RankRun::fillCut(const ArgumentPiece &piece, const Tensor &whole) {
  const Arg &arg = program.args[piece.arg];
  Shard shard = shardOfPiece(piece);
  auto [cut, bytes] = allocateTensor(whole.dtype, shard.local);
  cutShard(arg.shape, shard, bytesOf(whole.dtype)).run(whole.data, bytes);
  auto converted = convertTensor(cut, arg.dtype);
  if (!converted)
    return converted.error();
  return device->copyIn(piece.tensor.data, converted->data, piece.tensor.bytes());
}

Status RankRun::fillSaved(const ArgumentPiece &piece, ShardReader &from) {
  std::vector<std::byte> host(static_cast<size_t>(piece.tensor.bytes()));
  if (Status status = from.read(program.args[piece.arg], shardOfPiece(piece), host.data()); !status)
    return status;
  return device->copyIn(piece.tensor.data, host.data(), piece.tensor.bytes());
}

/// Gives an argument its first content.
Status RankRun::fill(const ArgumentPiece &piece) {
  const Arg &arg = program.args[piece.arg];
  const ArgSource &source = inputs.sources[piece.arg];
  const TensorView &target = piece.tensor;
  Shard shard = shardOfPiece(piece);
  if (isFed(source))
    return openFeed(source, cutShard(arg.shape, shard, bytesOf(arg.dtype)), target);
  if (source.kind == ArgSource::Kind::Tensor)
    return fillCut(piece, source.tensor);
  if (source.kind == ArgSource::Kind::Resume)
    return fillSaved(piece, *reader);
  std::vector<std::byte> host(static_cast<size_t>(target.bytes())); // zeros
  if (source.kind == ArgSource::Kind::Initialize)
    initializeParameter(options.seed, arg.name, arg.shape, shard, {host.data(), arg.dtype, shard.local});
  if (source.kind == ArgSource::Kind::Seed)
    std::memcpy(host.data(), &options.seed, sizeof(options.seed));
  return device->copyIn(target.data, host.data(), target.bytes());
}

Status RankRun::openFeed(const ArgSource &source, BoxCopy cut, const TensorView &target) {
  auto host = device->allocateHost(target.bytes());
  if (!host)
    return host.error();
  std::fill_n(host->get(), target.bytes(), std::byte(0)); // what no box covers is padding
  feeds.push_back({&source, std::move(cut), std::move(*host), target});
  return ok();
}

/// Gives the program its next batch, the batch's number and the learning rate.
Status RankRun::feed(BatchSource &source, int64_t number, double learningRate, double rateFactor) {
  auto batch = source.next(batches.user);
  if (!batch)
    return batch.error();
  for (Feed &feed : feeds) {
    switch (feed.source->kind) {
    case ArgSource::Kind::Data:
      feed.cut.run((**batch)[feed.source->input], feed.host.get());
      break;
    case ArgSource::Kind::Step:
      writeScalar(feed.target.dtype, double(number), feed.host.get());
      break;
    case ArgSource::Kind::RateFactor:
      writeScalar(feed.target.dtype, rateFactor, feed.host.get());
      break;
    default:
      writeScalar(feed.target.dtype, learningRate, feed.host.get());
      break;
    }
    if (Status status = executor->feed(feed.target, feed.host.get()); !status)
      return status;
  }
  source.release(batches.user);
  return ok();
}

/// Sets the sums of gradients to zero.
Status RankRun::clearAccumulators() {
  for (const ArgumentPiece &piece : executor->arguments()) {
    if (!package::isAccumulator(program.args[piece.arg]))
      continue;
    zeros.resize(std::max(zeros.size(), size_t(piece.tensor.bytes())));
    if (Status status = device->copyIn(piece.tensor.data, zeros.data(), piece.tensor.bytes()); !status)
      return status;
  }
  return ok();
}

/// All batches of a step; the loss is the mean of theirs.
Status RankRun::runBatches(StepResult &result) {
  const int64_t count = inputs.batchesOfStep;
  // A skipped step leaves no trace: it is no step of AdamW and draws no random numbers.
  const int64_t firstNumber = (result.step - skippedSteps) * count;
  if (count > 1)
    if (Status status = clearAccumulators(); !status)
      return status;
  double sum = 0;
  for (int64_t b = 0; b < count; ++b) {
    Status fed = feed(batches.training, firstNumber + b, result.learningRate, options.rateFactor(result.step));
    if (!fed) {
      Error error{fmt::format("step {}: {}", result.step, fed.error().message), fed.error().status};
      communicator.abort(error);
      return error;
    }
    StepKind kind = b + 1 == count ? StepKind::Step : StepKind::Batch;
    Status done = executor->step(kind);
    double of = 0;
    if (done)
      done = readScalar(inputs.lossResult, of);
    if (!done)
      return Error{fmt::format("step {}: {}", result.step, done.error().message), done.error().status};
    sum += of;
    if (auto failure = communicator.failure()) // that a rank alone does not meet
      return Error{fmt::format("step {}: {}", result.step, failure->message), failure->status};
  }
  result.loss = sum / double(count);
  return ok();
}

Status RankRun::runStep(StepResult &result) {
  Clock::time_point start = Clock::now();
  result.learningRate = options.learningRate(result.step);
  if (Status status = runBatches(result); !status)
    return status;
  result.seconds = secondsSince(start);
  return ok();
}

bool RankRun::evaluatesAfter(int64_t step) const {
  bool isLast = step + 1 == options.firstStep + options.steps;
  return batches.evaluation && (isLast || (step + 1) % options.evaluation.every == 0);
}

Status RankRun::evaluateAfter(int64_t step, RunReport &report) {
  auto evaluation = evaluate(*batches.evaluation, inputs.evaluationBatches, step);
  if (!evaluation)
    return evaluation.error();
  report.evaluations.push_back(*evaluation);
  if (communicator.rank() == 0 && options.onEvaluation)
    if (Status status = options.onEvaluation(*evaluation); !status) {
      communicator.abort(status.error());
      return status;
    }
  return ok();
}

/// The means of the loss and of other scalar results over `count` batches. Nothing is updated, and nothing is dropped:
/// the number of the batch is negative.
Result<Evaluation> RankRun::evaluate(BatchSource &source, int64_t count, int64_t step) {
  Clock::time_point start = Clock::now();
  std::vector<double> sums(inputs.metricResults.size(), 0.0);
  auto within = [&](const Error &error) {
    return Error{fmt::format("evaluation after step {}: {}", step, error.message), error.status};
  };
  for (int64_t b = 0; b < count; ++b) {
    if (Status status = feed(source, -1, 0, 0); !status) {
      communicator.abort(within(status.error()));
      return within(status.error());
    }
    Status done = executor->step(StepKind::Evaluation);
    for (size_t m = 0; m < sums.size() && done; ++m) {
      double value = 0;
      done = readScalar(inputs.metricResults[m], value);
      sums[m] += value;
    }
    if (auto failure = communicator.failure(); done && failure)
      done = *failure;
    if (!done)
      return within(done.error());
  }
  Evaluation evaluation{step, count, {}, secondsSince(start)};
  for (size_t m = 0; m < sums.size(); ++m)
    evaluation.means.emplace_back(program.results[size_t(inputs.metricResults[m])].name, sums[m] / double(count));
  return evaluation;
}

/// A scalar result. Every rank of the stage that has it tells its peers on the others.
Status RankRun::readScalar(int result, double &value) {
  if (auto local = executor->result(size_t(result))) {
    alignas(8) std::byte bytes[8];
    if (Status status = device->copyOut(bytes, local->data, bytesOf(local->dtype)); !status)
      return status;
    value = runtime::readScalar(local->dtype, bytes);
  }
  int64_t home = program.results[size_t(result)].stage, stages = package::stagesOf(program);
  if (home < 0 || stages == 1)
    return ok();
  if (stage != home)
    return communicator.receive(std::as_writable_bytes(std::span(&value, 1)),
                                package::rankOnStage(program, communicator.rank(), home), kStageTag);
  for (int64_t other = 0; other < stages; ++other)
    if (other != home)
      if (Status sent = communicator.startSend(std::as_bytes(std::span(&value, 1)),
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
    if (Status status = device->copyOut(host.data(), local->data, local->bytes()); !status)
      return status.error();
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
    auto whole = gather(executor->result(r), package::resultType(program, r), result.shape, result.sharding,
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
  while (holder < stages && !package::hasArg(program, index, holder))
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

Result<TensorMap> RankRun::gatherTensors(bool withStates) {
  TensorMap tensors;
  std::vector<ArgumentPiece> pieces = executor->arguments();
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    bool wanted = arg.kind == ArgKind::Parameter || arg.kind == ArgKind::Buffer ||
                  (arg.kind == ArgKind::State && withStates && !package::isAccumulator(arg));
    if (!wanted)
      continue;
    auto whole = gatherArgument(i, pieces);
    if (!whole)
      return whole.error();
    if (!*whole)
      continue;
    (*whole)->shape = arg.exportedShape;
    tensors.emplace(arg.name, std::move(**whole));
  }
  return tensors;
}

/// Gives the weights as they are before step `nextStep` to the file and the function that ask for them.
Status RankRun::saveTrained(int64_t nextStep) {
  if (Status status = checkFinite(nextStep); !status)
    return status;
  auto tensors = gatherTensors(options.saveStates);
  if (!tensors)
    return tensors.error();
  Status written = ok();
  if (communicator.rank() == 0 && !options.savePath.empty())
    written = writeSafetensors(options.savePath, *tensors);
  if (communicator.rank() == 0 && options.saveTo && written)
    written = options.saveTo(*tensors);
  return agree(communicator, written);
}

} // namespace kerf::runtime
