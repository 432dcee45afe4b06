// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/Session.h"
#include "CallerBatches.h"
#include "CheckpointFiles.h"
#include "RankThreads.h"

#include <cmath>
#include <fmt/format.h>

namespace kerf::runtime {

struct Session::State {
  package::Program program;
  Inputs inputs;
  RunOptions options; // options that the ranks read
  std::vector<BatchTensor> batch;
  CallerBatches given;
  std::vector<std::unique_ptr<Communicator>> communicators;
  RunReport report; // rank 0's report after loading
  int64_t nextStep = 0;
  double peakRate = 0; // the learning rate that setLearningRateFactor scales
  std::optional<RankThreads> ranks;

  State(package::Program program, Inputs inputs) : program(std::move(program)), inputs(std::move(inputs)) {}

  /// Returns the tensors of all ranks as global tensors.
  Result<TensorMap> gather(bool withStates);
};

Session::Session(std::unique_ptr<State> state) : state(std::move(state)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

static RunOptions runOptions(const SessionOptions &session) {
  RunOptions options;
  options.learningRate = [rate = session.learningRate](int64_t step) { return rate.at(step); };
  options.rateFactor = [rate = session.learningRate](int64_t step) { return rate.factor(step); };
  options.seed = session.seed;
  options.device = session.device;
  options.threads = session.threads;
  options.onNan = session.onNan;
  options.link = session.link;
  options.executor = session.executor;
  return options;
}

Result<Session> Session::create(package::Program program, const TensorMap &weights, const SessionOptions &options) {
  auto inputs = findInputs(program, weights, nullptr);
  if (!inputs)
    return inputs.error();
  auto state = std::make_unique<State>(std::move(program), std::move(*inputs));
  state->options = runOptions(options);
  state->nextStep = options.firstStep;
  state->peakRate = options.learningRate.peak;
  const int64_t count = package::ranksOf(state->program), perStep = state->inputs.batchesOfStep;
  for (const BatchInput &input : state->inputs.batch) {
    Shape shape = input.shape;
    if (perStep > 1)
      shape.insert(shape.begin(), perStep);
    state->batch.push_back({input.name, input.dtype, std::move(shape)});
  }
  state->given.open(state->inputs.batch.size(), perStep, count);
  state->communicators = createThreadCommunicators(count, options.link);
  std::vector<RankRun> ranks;
  std::vector<Communicator *> communicators;
  for (const auto &communicator : state->communicators) {
    communicators.push_back(communicator.get());
    ranks.emplace_back(state->program, state->inputs, state->options, *communicator,
                       RankBatches{state->given, nullptr, communicator->rank()});
  }
  state->ranks.emplace(std::move(ranks), std::move(communicators));
  Status started = state->ranks->runOnAll([&](RankRun &rank) -> Status {
    RunReport others;
    return rank.start(rank.rank() == 0 ? state->report : others);
  });
  if (!started)
    return started.error();
  return Session(std::move(state));
}

const std::vector<BatchTensor> &Session::inputs() const { return state->batch; }
int64_t Session::nextStep() const { return state->nextStep; }
const package::Program &Session::program() const { return state->program; }
const MemoryReport &Session::memory() const { return state->report.memory; }
const std::vector<std::string> &Session::initialized() const { return state->inputs.initialized; }

Status Session::setLearningRateFactor(double factor) {
  if (!std::isfinite(factor) || factor < 0)
    return Error{fmt::format("the factor {} of the learning rate has to be a finite number from 0 on", factor)};
  // No step runs now, so the ranks do not read the options.
  state->options.learningRate = [rate = factor * state->peakRate](int64_t) { return rate; };
  state->options.rateFactor = [factor](int64_t) { return factor; };
  return ok();
}

std::optional<Error> Session::ended() const { return state->communicators.front()->failure(); }

void Session::cancel() { state->communicators.front()->abort({kCancelled}); }

Result<StepResult> Session::step(const TensorMap &batch) {
  if (auto end = ended())
    return *end;
  if (Status status = state->given.give(batch, state->batch); !status)
    return status.error();
  StepResult result;
  std::optional<Error> nonfinite;
  Status done = state->ranks->runOnAll([&](RankRun &rank) -> Status {
    StepResult own;
    own.step = state->nextStep;
    auto end = rank.step(own);
    if (!end)
      return end.error();
    if (rank.rank() == 0) {
      result = own;
      nonfinite = std::move(end->nonfinite);
    }
    return ok();
  });
  if (!done)
    return done.error();
  ++state->nextStep;
  return nonfinite ? Result<StepResult>(*nonfinite) : result;
}

Result<Evaluation> Session::evaluate(const DataSet &data, bool samples, std::optional<int64_t> batches) {
  if (auto end = ended())
    return *end;
  Inputs &inputs = state->inputs;
  if (Status status = findEvaluation({&data, samples, 1, batches}, inputs); !status)
    return status.error();
  const int64_t count = inputs.evaluationBatches;
  BatchReader reader(
      data, inputs.batch, DataOrder{samples, false, 0}, inputs.evaluationData, count,
      [](int64_t request) { return request; }, int64_t(state->communicators.size()));
  Evaluation first;
  Status done = state->ranks->runOnAll([&](RankRun &rank) -> Status {
    auto evaluation = rank.evaluate(reader, count, state->nextStep - 1);
    if (!evaluation)
      return evaluation.error();
    if (rank.rank() == 0)
      first = std::move(*evaluation);
    return ok();
  });
  if (!done)
    return done.error();
  return first;
}

Result<TensorMap> Session::parameters() {
  if (auto end = ended())
    return *end;
  return state->gather(/*withStates=*/false);
}

Result<TensorMap> Session::parametersAndStates() {
  if (auto end = ended())
    return *end;
  return state->gather(/*withStates=*/true);
}

Result<TensorMap> Session::State::gather(bool withStates) {
  TensorMap all;
  Status done = ranks->runOnAll([&](RankRun &rank) -> Status {
    auto tensors = rank.gatherTensors(withStates);
    if (!tensors)
      return tensors.error();
    if (rank.rank() == 0)
      all = std::move(*tensors);
    return ok();
  });
  if (!done)
    return done.error();
  return all;
}

Status Session::assign(const TensorMap &tensors) {
  if (auto end = ended())
    return *end;
  if (Status status = checkAssigned(state->program, tensors); !status)
    return status;
  return state->ranks->runOnAll([&](RankRun &rank) { return rank.assign(tensors); });
}

Status Session::save(const std::string &folder, const nlohmann::ordered_json &info) {
  if (auto end = ended())
    return *end;
  CheckpointOptions options;
  options.folder = folder;
  options.every = 1;
  options.info = info;
  auto lock = prepareFolder(options, state->program, state->nextStep, state->nextStep + 1);
  if (!lock)
    return lock.error();
  return state->ranks->runOnAll([&](RankRun &rank) { return rank.save(options, state->nextStep); });
}

Status Session::load(const Checkpoint &checkpoint) {
  if (auto end = ended())
    return *end;
  if (Status status = checkCheckpoint(checkpoint, state->program); !status)
    return status;
  const uint64_t before = std::exchange(state->options.seed, checkpoint.index.seed);
  Status done = state->ranks->runOnAll([&](RankRun &rank) { return rank.restore(checkpoint); });
  if (done)
    state->nextStep = checkpoint.index.nextStep;
  else
    state->options.seed = before;
  return done;
}

} // namespace kerf::runtime
