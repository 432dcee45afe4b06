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

/// Largest number of steps for whose results memory is reserved before the first step. The 40 MiB of addresses become
/// actual memory only as steps are made.
constexpr int64_t kReservedSteps = int64_t(1) << 20;
} // namespace

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
  bool isFirstHere = communicator.rank() == 0 || options.communicator; // the first rank of this process
  if (isFirstHere && options.onStart)
    options.onStart();
  int64_t number = options.firstStep;
  for (; number < options.firstStep + options.steps && !report.stoppedBy; ++number) {
    StepResult result;
    result.step = number;
    bool isLast = number + 1 == options.firstStep + options.steps;
    auto end = step(result, isLast || evaluatesAfter(number) ? Following::Unknown : Following::Step);
    if (!end)
      return end.error();
    if (Status status = record(result, *end, report); !status)
      return status.error();
    if (evaluatesAfter(number))
      if (Status status = evaluateAfter(number, report); !status)
        return status.error();
    if (Status status = checkpoint(number + 1, report.stoppedBy != 0); !status)
      return messageOnRankZero(status.error());
  }
  report.skippedSteps = skippedSteps;
  report.times = executor->times();
  if (!options.savePath.empty() || options.saveTo)
    if (Status status = saveTrained(number); !status)
      return messageOnRankZero(status.error());
  if (!options.tracePath.empty())
    if (Status status = writeTrace(); !status)
      return messageOnRankZero(status.error());
  return report;
}

Status RankRun::start(RunReport &report) {
  Status loaded = load(report.start);
  if (Status status = agree(communicator, loaded); !status) {
    communicator.abort(status.error()); // ranks that have loaded may wait for a link to one that has not
    return messageOnRankZero(status.error());
  }
  report.memory = executor->memory();
  report.initialized = inputs.initialized;
  report.unused = inputs.unused;
  return gatherMemory(report);
}

/// Clears the message of an error that all ranks have, except on the rank that tells it (rank 0 if it still runs), so
/// that the message is printed once.
Error RankRun::messageOnRankZero(Error error) const {
  if (!communicator.tellsErrors())
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

/// A rank whose step fails ends the run on all ranks, because the others wait for it when they decide how the step
/// ends.
Result<StepEnd> RankRun::step(StepResult &result, Following following) {
  auto end = tryStep(result, following);
  if (!end && !communicator.failure())
    communicator.abort(end.error());
  return end;
}

Result<StepEnd> RankRun::tryStep(StepResult &result, Following following) {
  if (options.onNan == OnNan::Skip)
    if (Status status = guard->snapshot(); !status)
      return status.error();
  if (Status status = runStep(result, following); !status)
    return status.error();
  return decideStepEnd(result);
}

/// Decides, in agreement with all ranks, whether the step's result is kept and whether a signal asks the run to end.
Result<StepEnd> RankRun::decideStepEnd(StepResult &step) {
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
    if (Status status = guard->rollBack(); !status)
      return status.error();
    step.skipped = true;
    ++skippedSteps;
  }
  StepEnd end{signalOfFlags(*combined), std::nullopt};
  if (*combined & kNonfiniteFlag && options.onNan == OnNan::Stop)
    end.nonfinite = messageOnRankZero(nonfiniteLoss(step));
  return end;
}

/// Adds the step to the report, and calls RunOptions::onStep on rank 0.
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

Status RankRun::load(StartTimes &times) {
  Clock::time_point begin = Clock::now();
  auto opened = createDevice(options.device, {.threads = options.threads,
                                              .rank = communicator.rank(),
                                              .tf32 = options.tf32,
                                              .deterministic = options.executor.deterministic});
  if (!opened)
    return opened.error();
  device = std::move(*opened);
  times.device = secondsSince(std::exchange(begin, Clock::now()));
  if (Status status = openCheckpoints(); !status)
    return status;
  ExecutorOptions how = options.executor;
  how.record = how.record && options.tracePath.empty(); // the trace needs the times of the last step
  if (Status status = Executor::createInto(executor, program, *device, communicator, how); !status)
    return status;
  times.kernels = secondsSince(std::exchange(begin, Clock::now()));
  times.parts = device->bindSeconds();
  if (options.onNote && communicator.rank() == 0)
    for (const std::string &note : device->notes())
      options.onNote(note);
  Staging staging(*device, ranksOfProcess());
  for (const ArgumentPiece &piece : executor->arguments())
    if (Status status = fill(piece, staging); !status)
      return Error{fmt::format("'{}': {}", program.args[piece.arg].name, status.error().message),
                   status.error().status};
  times.tensors = secondsSince(begin);
  reader.reset(); // removing a checkpoint's files frees no disk space as long as they are mapped
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

/// Fails if a parameter, buffer or optimizer state is not finite, so that such numbers are not written to a file from
/// which training would continue.
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

/// Writes a checkpoint if one is due before step `nextStep`, or if the run ends early (`isLast`).
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
    return messageOnRankZero(status.error());
  Status saved = write(*created, nextStep);
  return saved ? saved : Status(messageOnRankZero(saved.error()));
}

Status RankRun::restore(const Checkpoint &from) {
  Status verified = verifyFiles(from, communicator.rank(), communicator.size());
  if (Status status = agree(communicator, verified); !status)
    return messageOnRankZero(status.error());
  ShardReader files(from);
  Staging staging(*device, ranksOfProcess());
  Status read = ok();
  for (const ArgumentPiece &piece : executor->arguments()) {
    const bool isSeed = inputs.sources[piece.arg].kind == ArgSource::Kind::Seed;
    if (read && (isSeed || isSaved(program, piece.arg)))
      read = isSeed ? fill(piece, staging) : fillSaved(piece, files);
  }
  skippedSteps = from.index.skippedSteps;
  Status all = agree(communicator, read);
  if (!all) // the tensors are now a mixture of old and new ones
    communicator.abort(all.error());
  return all ? all : Status(messageOnRankZero(all.error()));
}

Status RankRun::assign(const TensorMap &tensors) {
  Status assigned = ok();
  Staging staging(*device, ranksOfProcess());
  for (const ArgumentPiece &piece : executor->arguments())
    if (auto found = tensors.find(program.args[piece.arg].name); found != tensors.end() && assigned)
      assigned = fillCut(piece, found->second, staging);
  Status all = agree(communicator, assigned);
  if (!all)
    communicator.abort(all.error());
  return all ? all : Status(messageOnRankZero(all.error()));
}

/// Runs all batches of a step, and sets the step's loss to the mean of their losses.
Status RankRun::runBatches(StepResult &result, Following following) {
  const int64_t count = inputs.batchesOfStep;
  // A skipped step does not count as a step of the optimizer or of dropout's random numbers.
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
    bool isLast = b + 1 == count;
    Status done = runWithNext(isLast ? StepKind::Step : StepKind::Batch,
                              isLast && following == Following::Unknown ? nullptr : &batches.training);
    double loss = 0;
    if (done)
      done = readScalar(inputs.lossResult, loss);
    if (!done)
      return Error{fmt::format("step {}: {}", result.step, done.error().message), done.error().status};
    sum += loss;
    if (auto failure = communicator.failure()) // another rank may have failed where this one did not
      return Error{fmt::format("step {}: {}", result.step, failure->message), failure->status};
  }
  result.loss = sum / double(count);
  return ok();
}

Status RankRun::runStep(StepResult &result, Following following) {
  Clock::time_point start = Clock::now();
  result.learningRate = options.learningRate(result.step);
  if (Status status = runBatches(result, following); !status)
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

/// Computes the means of the loss and of the other scalar results over `count` batches. The batch number that the
/// program gets is negative, which turns dropout off.
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
    Status done = runWithNext(StepKind::Evaluation, b + 1 < count ? &source : nullptr);
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

} // namespace kerf::runtime
