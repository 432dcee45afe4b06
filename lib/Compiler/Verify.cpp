// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/Verify.h"
#include "kerf/Compiler/Hardware.h"
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/Compiler/TrialData.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Runtime/Run.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace kerf {

namespace {

constexpr double kAgree = 1e-9; // tolerated difference of float64 results, as a fraction of the largest element

int64_t layersOf(mlir::ModuleOp module) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  std::set<std::string> layers; // pieces of one layer share its name
  for (auto call : main.getOps<ir::CallOp>())
    if (!call->hasAttr(ir::KerfDialect::kBackwardAttr))
      layers.insert(ir::nodeName(call.getLoc()));
  return static_cast<int64_t>(layers.size());
}

/// The results of training under one plan.
struct Outcome {
  std::vector<double> losses;
  TensorMap norms, trained;
};

/// Returns a text on the first tensor, in the order of `names`, that differs by more than the tolerance: its largest
/// difference and its largest element. Returns nothing when all tensors agree.
std::optional<std::string> firstDifference(const std::string &what, const std::vector<std::string> &names,
                                           const TensorMap &expected, const TensorMap &got) {
  for (const std::string &name : names) {
    auto a = expected.find(name), b = got.find(name);
    if (a == expected.end() || b == got.end())
      continue;
    const double *first = reinterpret_cast<const double *>(a->second.data),
                 *second = reinterpret_cast<const double *>(b->second.data);
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < elementsOf(a->second.shape); ++i) {
      largest = std::max(largest, std::abs(first[i]));
      double apart = std::abs(first[i] - second[i]);
      difference = std::isnan(apart) ? INFINITY : std::max(difference, apart);
    }
    if (!(difference <= kAgree * std::max(largest, 1e-12)))
      return fmt::format("{}'{}' differs by {:.3g} (its largest element is {:.3g})", what, name, difference, largest);
  }
  return std::nullopt;
}

/// Returns the memory of each stage (that of the program's memory plan, and on accelerators that of driver and
/// libraries too) and the memory of its device.
Result<std::vector<StageMemoryNeed>> memoryOf(const VerifyRequest &request, mlir::MLIRContext &context,
                                              const CompileResult &compiled, const Plan &plan, bool simulated,
                                              const Cluster &machine) {
  std::vector<StageMemoryNeed> needs;
  for (const StageMemory &stage : compiled.figures.memory)
    needs.push_back({static_cast<int64_t>(stage.deviceBytes), machine.device.memoryBytes});
  if (!simulated || machine.device.kind == "cpu")
    return needs;
  for (StageMemoryNeed &need : needs)
    need.bytes += static_cast<int64_t>(machine.device.curves.contextBytes);
  if (!machine.mixed())
    return needs;
  // The simulator knows which of the cluster's devices each stage runs on.
  SimulateOptions options{request.step, request.dtype};
  auto whole = simulatePlan(context, request.model, plan, request.planFile, machine, options);
  if (!whole)
    return whole.error();
  for (size_t stage = 0; stage < needs.size(); ++stage)
    needs[stage].limitBytes = static_cast<int64_t>(whole->simulation.memory[stage].limitBytes);
  return needs;
}

/// Returns a plan with the mesh `sizes` and only the strategies of operators and arguments of `plan`.
Plan strategiesOn(const std::map<std::string, int64_t> &sizes, const Plan &plan) {
  Plan small;
  small.meshSizes = sizes;
  small.order = plan.order;
  small.ops = plan.ops;
  small.arguments = plan.arguments;
  return small;
}

/// Compiles the plan at full size, which checks message order and schedule, and returns the memory of each stage.
Result<FullSizeCheck> checkFull(const VerifyRequest &request, mlir::MLIRContext &context, const TrainingStep &step,
                                const Plan &plan, bool simulated, const Cluster &machine) {
  Plan lowered = plan;
  lowered.gradientDtype.clear(); // the imported step already has these types
  auto compiled = compileStep(step, lowered, request.planFile, machine);
  if (!compiled)
    return compiled.error();
  const package::Program &program = compiled->program;
  auto needs = memoryOf(request, context, *compiled, plan, simulated, machine);
  if (!needs)
    return needs.error();
  return FullSizeCheck{package::ranksOf(program), package::microbatchesOf(program), std::move(*needs), request.limited,
                       memoryRulesText(machine.device)};
}

Result<Outcome> train(const TrainingStep &step, const Plan &plan, const char *what, const TensorMap *data,
                      TensorMap *made, std::vector<std::string> *names) {
  int64_t ranks = 1;
  for (const auto &[axis, size] : plan.meshSizes)
    ranks *= size;
  auto machine = thisMachine(ranks);
  if (!machine)
    return machine.error();
  auto compiled = compileStep(step, plan, what, *machine);
  if (!compiled)
    return compiled.error();
  if (made)
    *made = randomBatches(*step.module, compiled->program, kVerifiedSteps);
  if (names)
    for (const package::Arg &arg : compiled->program.args)
      if (arg.trainable)
        names->push_back(arg.name);
  runtime::RunOptions options;
  options.steps = kVerifiedSteps;
  options.learningRate = [](int64_t) { return 1e-2; };
  Outcome outcome;
  options.saveTo = [&](const TensorMap &tensors) {
    outcome.trained = tensors;
    return ok();
  };
  auto report = runtime::run(compiled->program, step.weights, made ? *made : *data, options);
  if (!report)
    return Error{fmt::format("{}: {}", what, report.error().message), report.error().status};
  for (const runtime::StepResult &result : report->steps)
    outcome.losses.push_back(result.loss);
  outcome.norms = std::move(report->firstResults);
  return outcome;
}

/// Imports the step at full size in the types of the job.
Result<TrainingStep> importFull(const VerifyRequest &request, mlir::MLIRContext &context, StepOptions options) {
  options.precision = defaultPrecision(request.dtype);
  if (options.precision && (request.plan.gradientDtype == "bf16" || request.plan.gradientDtype == "f16"))
    options.precision->reduceInCompute = true;
  return importTrainingStep(context, request.model, options);
}

/// Returns a text on the first difference between the results of one rank (`expected`) and of the reduced plan (`got`),
/// for the parameters `names`.
std::optional<std::string> differenceOf(const std::vector<std::string> &names, const Outcome &expected,
                                        const Outcome &got) {
  std::vector<std::string> norms;
  for (const std::string &name : names)
    norms.push_back("gradient_norm_squared/" + name);
  auto difference = firstDifference("gradients at step 0: ", norms, expected.norms, got.norms);
  if (!difference)
    difference = firstDifference(fmt::format("after {} steps: ", kVerifiedSteps), names, expected.trained, got.trained);
  for (int64_t i = 0; i < kVerifiedSteps && !difference; ++i)
    if (!(std::abs(got.losses[i] - expected.losses[i]) <= kAgree * std::abs(expected.losses[i])))
      difference = fmt::format("the loss of step {} is {}, but {} on one rank", i, got.losses[i], expected.losses[i]);
  return difference;
}

/// Returns a plan for one rank.
Plan singleRank() {
  Plan single;
  for (const char *axis : kPlanAxes)
    single.meshSizes[axis] = 1;
  single.schedule.name = defaultSchedule(/*chunked=*/false).name;
  return single;
}

/// Trains under the reduced plan and on one rank with the same random batches, and compares the results.
Result<VerifyResult> runSmall(const TrainingStep &step, ShrunkPlan small, FullSizeCheck full) {
  small.plan.gradientDtype.clear();
  TensorMap data;
  std::vector<std::string> names;
  auto expected = train(step, singleRank(), "one rank", nullptr, &data, &names);
  if (!expected)
    return expected.error();
  auto got = train(step, small.plan, "the shrunken plan", &data, nullptr, nullptr);
  if (!got)
    return got.error();
  auto difference = differenceOf(names, *expected, *got);
  return VerifyResult{std::move(full), std::move(small), std::move(got->losses), std::move(expected->losses),
                      std::move(difference)};
}

} // namespace

Result<VerifyResult> verifyPlan(const VerifyRequest &request) {
  Plan plan = request.plan;
  plan.clusterHash.clear();     // the verification does not need the machines of the plan
  plan.optimizerStates.reset(); // Kerf's runtime, which checks the plan, keeps them in full on the device
  StepOptions options = request.step;
  if (Status status = setPlanDependentOptions(options, plan, request.planFile); !status)
    return status.error();
  auto context = createContext();
  auto whole = importFull(request, *context, options);
  if (!whole)
    return whole.error();
  const bool opByOp = isOpByOp(plan, batchOf(*whole->module));
  TrainingJob job;
  job.model = request.model.name;
  job.dtype = request.dtype;
  job.exportedBatch = batchOf(*whole->module);
  job.perOpStrategies = opByOp;
  job.ops = plan.ops;
  job.arguments = plan.arguments;
  job.recomputeOps = plan.recomputeOps;
  auto completed = completePlan(plan, request.planFile, request.cluster, job);
  if (!completed)
    return completed.error();
  plan.modelHash.clear(); // the hash was checked against the full model; the reduced model has another hash
  const Cluster limited = withMargin(completed->cluster, request.margin);
  auto full = checkFull(request, *context, *whole, opByOp ? plan : completed->plan, !opByOp, limited);
  if (!full)
    return full.error();

  ShrunkPlan small = shrink(*completed, layersOf(*whole->module),
                            request.model.isConfig() ? ShrunkModel::Configured : ShrunkModel::Exported);
  if (opByOp)
    small.plan = strategiesOn(small.plan.meshSizes, plan);
  if (OptimizerStates states = request.plan.optimizerStates.value_or(OptimizerStates::Device);
      states != OptimizerStates::Device)
    small.notes.push_back(
        fmt::format("optimizer_states {} -> device, also in the memory at full size", toString(states)));
  options.import.floatType = DType::F64;
  options.optimizer.gradientNorms = true;
  const bool ofAllOps = options.patternsOfAllOps;
  if (Status status = setPlanDependentOptions(options, small.plan, "the shrunken plan"); !status)
    return status.error();
  options.patternsOfAllOps = ofAllOps;
  auto step = request.model.isConfig() ? importSmallStep(*context, request.model, options, small.sizes, small.notes)
                                       : importTrainingStep(*context, request.model, options);
  if (!step)
    return Error{fmt::format("the shrunken model: {}", step.error().message), step.error().status};
  return runSmall(*step, std::move(small), std::move(*full));
}

} // namespace kerf
