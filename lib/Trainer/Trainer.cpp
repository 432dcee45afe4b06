// SPDX-License-Identifier: Apache-2.0
// Trainer::create turns a model into a training step, a plan, a device program and a session of ranks. All other calls
// are passed on to the session.
#include "kerf/Trainer/Trainer.h"
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Runtime/RunSettings.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::training {

struct Trainer::State {
  Plan plan;
  Report report;
  std::vector<std::string> notes;
  runtime::RunSettings settings; // settings that checkpoints record
  runtime::Session session;
};

Trainer::Trainer(std::unique_ptr<State> state) : state(std::move(state)) {}
Trainer::Trainer(Trainer &&) noexcept = default;
Trainer &Trainer::operator=(Trainer &&) noexcept = default;
Trainer::~Trainer() = default;

namespace {

/// Returns the options of the step, with the types that `dtype` selects.
StepOptions stepOptions(const TrainerOptions &options) {
  StepOptions step = options.step;
  step.import.floatType = options.dtype == "f64" ? DType::F64 : DType::F32;
  if (!step.precision)
    step.precision = defaultPrecision(options.dtype);
  return step;
}

/// Fails if the model's weight files are missing, unless the user gave weights or asked for random values by a seed: a
/// lost file must not silently be replaced by random weights.
Status checkWeights(const TrainingStep &step, const TrainerOptions &options) {
  if (step.missingFiles.empty() || options.step.import.weights || !options.weights.empty() || options.seed)
    return ok();
  return Error{
      fmt::format("{}: the weights should be in '{}', which does not exist; put the file there, give <weights>, or "
                  "give <seed> to start from random values",
                  options.model.name, fmt::join(step.missingFiles, "', '"))};
}

Status replaceWeights(const package::Program &program, const TensorMap &given, TensorMap &weights) {
  for (const auto &[name, tensor] : given) {
    if (std::none_of(program.args.begin(), program.args.end(),
                     [&](const package::Arg &arg) { return arg.name == name && arg.kind <= package::ArgKind::State; }))
      return Error{fmt::format("weights: the model has no tensor '{}'; leave it out or correct its name", name)};
    weights[name] = tensor;
  }
  return ok();
}

Result<PlanRequest> requestOf(const TrainerOptions &options) {
  const int64_t asked = options.ranks ? options.ranks : options.plan ? options.plan->mesh().ranks() : 1;
  auto machine = options.cluster ? firstRanks(*options.cluster, options.ranks ? asked : options.cluster->ranks())
                                 : thisMachine(asked);
  if (!machine)
    return machine.error();
  PlanRequest request{options.model, stepOptions(options), options.dtype, std::move(*machine), options.search};
  request.search = options.searchKind;
  request.standIn = !options.cluster;
  return request;
}

constexpr const char *kPlanName = "the plan given";

Result<PlanResult> planFor(const TrainingStep &step, const TrainerOptions &options, PlanRequest request) {
  const std::optional<Plan> &plan = options.plan;
  if (plan && (plan->complete() || isExecutionPlan(*plan, batchOf(*step.module))))
    return compilePlan(step, *plan, kPlanName, request);
  if (plan) {
    request.options.constraints = *plan;
    request.options.constraintsFile = kPlanName;
  }
  return planTraining(step, request);
}

runtime::SessionOptions sessionOptions(const TrainerOptions &options) {
  runtime::SessionOptions session;
  session.learningRate = options.learningRate;
  session.firstStep = options.firstStep;
  session.seed = options.seed.value_or(session.seed);
  session.device = options.device;
  session.threads = options.threads;
  session.onNan = options.onNan;
  return session;
}

} // namespace

Result<Trainer> Trainer::create(const TrainerOptions &options) {
  auto request = requestOf(options);
  if (!request)
    return request.error();
  StepOptions prepared = request->step;
  if (options.plan)
    if (Status status = setPlanDependentOptions(prepared, *options.plan, kPlanName); !status)
      return status.error();
  auto context = createContext(); // owns the IR of the step
  auto step = importTrainingStep(*context, options.model, prepared);
  if (!step)
    return step.error();
  if (Status status = checkWeights(*step, options); !status)
    return status.error();
  auto planned = planFor(*step, options, std::move(*request));
  if (!planned)
    return planned.error();
  CompileResult &compiled = planned->compiled;
  if (Status status = addCodeForDevice(compiled, options.device, options.nativeCode); !status)
    return status.error();
  describeProgram(compiled.program, options.model.name, *step, planned->plan);
  if (Status status = replaceWeights(compiled.program, options.weights, step->weights); !status)
    return status.error();
  auto perStep = package::batchesOfStep(compiled.program);
  if (!perStep)
    return perStep.error();
  runtime::RunSettings settings;
  settings.learningRate = options.learningRate;
  settings.perStep = *perStep;
  auto session = runtime::Session::create(std::move(compiled.program), step->weights, sessionOptions(options));
  if (!session)
    return session.error();
  std::vector<std::string> notes = std::move(planned->notes);
  notes.insert(notes.end(), planned->warnings.begin(), planned->warnings.end());
  return Trainer(std::make_unique<State>(State{std::move(planned->plan), std::move(compiled.report), std::move(notes),
                                               std::move(settings), std::move(*session)}));
}

const std::vector<runtime::BatchTensor> &Trainer::inputs() const { return state->session.inputs(); }
Result<runtime::StepResult> Trainer::step(const TensorMap &batch) { return state->session.step(batch); }
int64_t Trainer::nextStep() const { return state->session.nextStep(); }
Status Trainer::setLearningRateFactor(double factor) { return state->session.setLearningRateFactor(factor); }

Result<runtime::Evaluation> Trainer::evaluate(const runtime::DataSet &data, bool samples,
                                              std::optional<int64_t> batches) {
  return state->session.evaluate(data, samples, batches);
}

Result<TensorMap> Trainer::parameters() { return state->session.parameters(); }
Result<TensorMap> Trainer::parametersAndStates() { return state->session.parametersAndStates(); }
Status Trainer::assign(const TensorMap &tensors) { return state->session.assign(tensors); }

Status Trainer::saveWeights(const std::string &path) {
  auto tensors = parameters();
  return tensors ? writeSafetensors(path, *tensors) : Status(tensors.error());
}

Status Trainer::save(const std::string &folder) {
  const runtime::Session &session = state->session;
  return state->session.save(folder, runtime::checkpointInfo(session.program(), state->settings));
}

Status Trainer::load(const std::string &folder) {
  auto checkpoint = runtime::openCheckpoint(folder);
  return checkpoint ? state->session.load(*checkpoint) : Status(checkpoint.error());
}

void Trainer::cancel() { state->session.cancel(); }
std::optional<Error> Trainer::ended() const { return state->session.ended(); }
const Plan &Trainer::plan() const { return state->plan; }
const Report &Trainer::report() const { return state->report; }
const std::vector<std::string> &Trainer::notes() const { return state->notes; }

} // namespace kerf::training
