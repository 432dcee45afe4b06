// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/Verify.h"
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

constexpr double kAgree = 1e-9; // of a float64 tensor's largest element: what rounding leaves

int64_t layersOf(mlir::ModuleOp module) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  std::set<std::string> layers; // pieces of one have its name
  for (auto call : main.getOps<ir::CallOp>())
    if (!call->hasAttr(ir::KerfDialect::kBackwardAttr))
      layers.insert(ir::nodeName(call.getLoc()));
  return static_cast<int64_t>(layers.size());
}

/// The numbers that training gave under one plan.
struct Outcome {
  std::vector<double> losses;
  TensorMap norms, trained;
};

/// First tensor that differs, in the order of `names`; with the largest difference and the largest element.
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
      return fmt::format("{}'{}' differs by {:.3g}, its largest element is {:.3g}", what, name, difference, largest);
  }
  return std::nullopt;
}

/// Bytes of each stage and what its device has. Programs of CPUs take what their memory plans say; for accelerators
/// the simulator says what allocator, driver and libraries need besides, as `kerf simulate` prints it.
Result<std::vector<StageNeed>> memoryOf(const VerifyRequest &request, mlir::MLIRContext &context,
                                        const package::Program &program, const Plan &plan, bool simulated,
                                        const Cluster &machine) {
  std::vector<StageNeed> needs;
  if (simulated && machine.device.kind != "cpu") {
    SimulateOptions options{request.step, request.dtype};
    auto whole = simulatePlan(context, request.model, plan, request.planFile, machine, options);
    if (!whole)
      return whole.error();
    for (const StageMemory &stage : whole->simulation.memory)
      needs.push_back({static_cast<int64_t>(stage.deviceBytes), static_cast<int64_t>(stage.limitBytes)});
    return needs;
  }
  for (int64_t stage = 0; stage < package::stagesOf(program); ++stage) {
    auto memory = runtime::planMemory(program, stage);
    if (!memory)
      return memory.error();
    needs.push_back({memory->totalBytes(), machine.device.memoryBytes});
  }
  return needs;
}

/// The strategies of a plan's ops on a smaller mesh, and nothing that asks for more than them.
Plan strategiesOn(const std::map<std::string, int64_t> &sizes, const Plan &plan) {
  Plan small;
  small.meshSizes = sizes;
  small.order = plan.order;
  small.ops = plan.ops;
  small.arguments = plan.arguments;
  return small;
}

/// Programs of all stages at full size: order of messages, schedule, memory.
Result<FullCheck> checkFull(const VerifyRequest &request, mlir::MLIRContext &context, const TrainingStep &step,
                            const Plan &plan, bool simulated, const Cluster &machine) {
  Plan lowered = plan;
  lowered.gradientDtype.clear(); // the step has it
  auto compiled = compileStep(step, lowered, request.planFile, machine);
  if (!compiled)
    return compiled.error();
  const package::Program &program = compiled->program;
  auto needs = memoryOf(request, context, program, plan, simulated, machine);
  if (!needs)
    return needs.error();
  return FullCheck{package::ranksOf(program), package::microbatchesOf(program), std::move(*needs), request.limited};
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

/// The step at full size, in the job's types. Types of 8 bits are the simulator's: programs have them in bf16.
Result<TrainingStep> importFull(const VerifyRequest &request, mlir::MLIRContext &context, StepOptions options) {
  options.precision = defaultPrecision(request.dtype == "f8" ? "bf16" : request.dtype);
  if (options.precision && (request.plan.gradientDtype == "bf16" || request.plan.gradientDtype == "f16"))
    options.precision->reduceInCompute = true;
  return importTrainingStep(context, request.model, options);
}

/// The first difference between what one rank and the small plan gave, in parameters `names`.
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
      difference = fmt::format("the loss of step {} is {}, on one rank {}", i, got.losses[i], expected.losses[i]);
  return difference;
}

/// The plan of one rank.
Plan singleRank() {
  Plan single;
  for (const char *axis : kPlanAxes)
    single.meshSizes[axis] = 1;
  single.schedule.name = usualSchedule(/*chunked=*/false).name;
  return single;
}

/// Trains the small plan and one rank on the same random batches, and compares them.
Result<Verified> runSmall(const TrainingStep &step, Shrunk small, FullCheck full) {
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
  return Verified{std::move(full), std::move(small), std::move(got->losses), std::move(expected->losses),
                  std::move(difference)};
}

} // namespace

Result<Verified> verifyPlan(const VerifyRequest &request) {
  Plan plan = request.plan;
  plan.clusterHash.clear(); // the machines need not be here
  StepOptions options = request.step;
  if (Status status = prepareFor(options, plan, request.planFile); !status)
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
  job.opByOp = opByOp;
  job.ops = plan.ops;
  job.arguments = plan.arguments;
  job.recomputeOps = plan.recomputeOps;
  auto completed = completePlan(plan, request.planFile, request.cluster, job);
  if (!completed)
    return completed.error();
  plan.modelHash.clear(); // compileStep compares it with its own model's below
  const Cluster limited = withMargin(completed->cluster, request.margin);
  auto full = checkFull(request, *context, *whole, opByOp ? plan : completed->plan, !opByOp, limited);
  if (!full)
    return full.error();

  Shrunk small = shrink(*completed, layersOf(*whole->module),
                        request.model.isConfig() ? ShrunkModel::Configured : ShrunkModel::Exported);
  if (opByOp)
    small.plan = strategiesOn(small.plan.meshSizes, plan);
  options.import.floatType = DType::F64;
  options.optimizer.gradientNorms = true;
  const bool ofAllOps = options.patternsOfAllOps;
  if (Status status = prepareFor(options, small.plan, "the shrunken plan"); !status)
    return status.error();
  options.patternsOfAllOps = ofAllOps;
  auto step = request.model.isConfig() ? importSmallStep(*context, request.model, options, small.sizes, small.notes)
                                       : importTrainingStep(*context, request.model, options);
  if (!step)
    return Error{fmt::format("the shrunken model: {}", step.error().message), step.error().status};
  return runSmall(*step, std::move(small), std::move(*full));
}

} // namespace kerf
