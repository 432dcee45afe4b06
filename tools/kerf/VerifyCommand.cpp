// SPDX-License-Identifier: Apache-2.0
// kerf verify: the plan's programs are checked at full size, and run at a small one against a single rank.
#include "Options.h"

#include "kerf/Compiler/Shrink.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/Compiler/TrialData.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSteps = 3;
constexpr double kAgree = 1e-9; // of a float64 tensor's largest element: what rounding leaves

int64_t layersOf(mlir::ModuleOp module) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  std::set<std::string> layers; // pieces of one have its name
  for (auto call : main.getOps<ir::CallOp>())
    if (!call->hasAttr(ir::KerfDialect::kBackwardAttr))
      layers.insert(ir::nodeName(call.getLoc()));
  return static_cast<int64_t>(layers.size());
}

/// What training gave under one plan.
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

/// Memory of a stage at full size.
struct StageNeed {
  int64_t bytes = 0, limitBytes = 0;
};

/// What was checked at full size.
struct Full {
  int64_t ranks = 0, microbatches = 0;
  std::vector<StageNeed> stages;
  bool limited = false; // the devices are known: stages have to fit
};

Json toJson(const Full &full) {
  Json json{{"ranks", full.ranks}, {"stages", full.stages.size()}, {"microbatches", full.microbatches}};
  for (size_t stage = 0; stage < full.stages.size(); ++stage) {
    json["stage_bytes"].push_back(full.stages[stage].bytes);
    if (full.limited && full.stages[stage].bytes > full.stages[stage].limitBytes)
      json["too_much"].push_back(stage);
  }
  if (full.limited)
    json["limit_bytes"] = full.stages.front().limitBytes;
  return json;
}

struct Verified {
  Full full;
  Shrunk small;
  std::vector<double> losses, lossesOfOneRank;
  std::optional<std::string> difference;
};

Json toJson(const Verified &verified) {
  return {{"full", toJson(verified.full)},
          {"shrunk", verified.small.notes},
          {"mesh", verified.small.plan.meshSizes},
          {"losses", verified.losses},
          {"losses_of_one_rank", verified.lossesOfOneRank},
          {"difference", verified.difference ? Json(*verified.difference) : Json(nullptr)}};
}

struct VerifyCommand {
  ModelFlags model;
  std::string planFile, cluster;
  bool json = false;
  GivenPlan given;

  bool configured() const { return model.model.ends_with(".json"); }

  /// Bytes of each stage and what its device has. Programs of CPUs take what their memory plans say; for accelerators
  /// the simulator says what allocator, driver and libraries need besides, as `kerf simulate` prints it.
  Result<std::vector<StageNeed>> memoryOf(mlir::MLIRContext &context, const package::Program &program, const Plan &plan,
                                          bool simulated, const Cluster &machine) const {
    std::vector<StageNeed> needs;
    if (simulated && machine.device.kind != "cpu") {
      SimulateOptions options{model.toStepOptions(), model.dtype};
      auto whole = simulatePlan(context, model.model, plan, planFile, machine, options);
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

  /// The share of the devices' memory that the plan was asked to leave free.
  std::optional<double> marginOfJob() const {
    if (given.job)
      if (auto margin = given.job->options.find("margin"); margin != given.job->options.end() && margin->is_number())
        return margin->get<double>();
    return std::nullopt;
  }

  /// The strategies of a plan's ops on a smaller mesh, and nothing that asks for more than them.
  static Plan strategiesOn(const std::map<std::string, int64_t> &sizes, const Plan &plan) {
    Plan small;
    small.meshSizes = sizes;
    small.order = plan.order;
    small.ops = plan.ops;
    small.arguments = plan.arguments;
    return small;
  }

  /// Programs of all stages at full size: order of messages, schedule, memory.
  Result<Full> checkFull(mlir::MLIRContext &context, const TrainingStep &step, const Plan &plan, bool simulated,
                         const Cluster &machine) const {
    Plan lowered = plan;
    lowered.gradientDtype.clear(); // the step has it
    auto compiled = compileStep(step, lowered, planFile, machine);
    if (!compiled)
      return compiled.error();
    const package::Program &program = compiled->program;
    auto needs = memoryOf(context, program, plan, simulated, machine);
    if (!needs)
      return needs.error();
    return Full{package::ranksOf(program), package::microbatchesOf(program), std::move(*needs)};
  }

  Result<Outcome> train(const TrainingStep &step, const Plan &plan, const char *what, const TensorMap *data,
                        TensorMap *made, std::vector<std::string> *names) const {
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
      *made = randomBatches(*step.module, compiled->program, kSteps);
    if (names)
      for (const package::Arg &arg : compiled->program.args)
        if (arg.trainable)
          names->push_back(arg.name);
    runtime::RunOptions options;
    options.steps = kSteps;
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
  Result<TrainingStep> importFull(mlir::MLIRContext &context, StepOptions options, const Plan &plan) const {
    PrecisionFlags flags;
    if (plan.gradientDtype == "bf16" || plan.gradientDtype == "f16")
      flags.reduceDtype = "compute";
    auto precision = flags.toOptions(model.dtype == "f8" ? "bf16" : model.dtype);
    if (!precision)
      return precision.error();
    options.precision = *precision;
    return importTrainingStep(context, model.model, options);
  }

  Result<Verified> verify() {
    std::optional<Plan> plan = given.plan;
    plan->clusterHash.clear(); // the machines need not be here
    StepOptions options = model.toStepOptions();
    if (Status status = prepareFor(options, *plan, planFile); !status)
      return status.error();
    auto context = createContext();
    auto whole = importFull(*context, options, *plan);
    if (!whole)
      return whole.error();
    int64_t ranks = plan->mesh().ranks();
    const bool opByOp = isOpByOp(*plan, batchOf(*whole->module));
    auto machine = machinesOf(cluster, given.job, 0, ranks);
    if (!machine)
      return machine.error();
    TrainingJob job;
    job.model = model.model;
    job.dtype = model.dtype;
    job.exportedBatch = batchOf(*whole->module);
    job.opByOp = opByOp;
    job.ops = plan->ops;
    job.arguments = plan->arguments;
    job.recomputeOps = plan->recomputeOps;
    auto completed = completePlan(*plan, planFile, *machine, job);
    if (!completed)
      return completed.error();
    plan->modelHash.clear(); // compileStep compares it with its own model's below
    const Cluster limited = withMargin(completed->cluster, marginOfJob());
    auto full = checkFull(*context, *whole, opByOp ? *plan : completed->plan, !opByOp, limited);
    if (!full)
      return full.error();
    full->limited = !cluster.empty() || (given.job && given.job->cluster);

    Shrunk small =
        shrink(*completed, layersOf(*whole->module), configured() ? ShrunkModel::Configured : ShrunkModel::Exported);
    if (opByOp)
      small.plan = strategiesOn(small.plan.meshSizes, *plan);
    options.import.floatType = DType::F64;
    options.optimizer.gradientNorms = true;
    const bool ofAllOps = options.patternsOfAllOps;
    if (Status status = prepareFor(options, small.plan, "the shrunken plan"); !status)
      return status.error();
    options.patternsOfAllOps = ofAllOps;
    auto step = configured() ? importSmallStep(*context, model.model, options, small.sizes, small.notes)
                             : importTrainingStep(*context, model.model, options);
    if (!step)
      return Error{fmt::format("the shrunken model: {}", step.error().message), step.error().status};
    small.plan.gradientDtype.clear();
    Plan single;
    for (const char *axis : kPlanAxes)
      single.meshSizes[axis] = 1;
    single.schedule.name = usualSchedule(/*chunked=*/false).name;
    TensorMap data;
    std::vector<std::string> names;
    auto expected = train(*step, single, "one rank", nullptr, &data, &names);
    if (!expected)
      return expected.error();
    auto got = train(*step, small.plan, "the shrunken plan", &data, nullptr, nullptr);
    if (!got)
      return got.error();

    std::vector<std::string> norms;
    for (const std::string &name : names)
      norms.push_back("gradient_norm_squared/" + name);
    auto difference = firstDifference("gradients at step 0: ", norms, expected->norms, got->norms);
    if (!difference)
      difference = firstDifference(fmt::format("after {} steps: ", kSteps), names, expected->trained, got->trained);
    for (int64_t i = 0; i < kSteps && !difference; ++i)
      if (!(std::abs(got->losses[i] - expected->losses[i]) <= kAgree * std::abs(expected->losses[i])))
        difference = fmt::format("the loss of step {} is {}, on one rank {}", i, got->losses[i], expected->losses[i]);
    return Verified{std::move(*full), std::move(small), std::move(got->losses), std::move(expected->losses),
                    std::move(difference)};
  }

  void printText(const Verified &verified) const {
    const Full &full = verified.full;
    std::vector<std::string> needs;
    for (const StageNeed &stage : full.stages)
      needs.push_back(full.limited ? fmt::format("{} of {}", bytesText(stage.bytes), bytesText(stage.limitBytes))
                                   : bytesText(stage.bytes));
    fmt::print(
        "{} at full size: {} ranks, {} stages, {} microbatches\n"
        "  schedule and messages   in an order in which no rank waits for ever; a stage's ranks run one program\n"
        "  memory by stage         {}{}\n",
        planFile, full.ranks, full.stages.size(), full.microbatches, fmt::join(needs, ", "),
        full.limited ? "" : ", as the CPU's kernels need it; --cluster says what devices have");
    fmt::print("run small: mesh {}, {} steps in float64 against one rank\n", meshText(verified.small.plan.mesh()),
               kSteps);
    for (const std::string &note : verified.small.notes)
      fmt::print("  {}\n", note);
    if (!configured())
      fmt::print("  an export keeps its layers, its sizes and its batch\n");
    if (!verified.difference)
      fmt::print("the plan's losses, gradients and parameters are those of one rank\n");
  }

  int run() {
    auto verified = verify();
    if (!verified)
      return fail(verified.error());
    if (json)
      fmt::print("{}\n", toJson(*verified).dump(2));
    else
      printText(*verified);
    if (verified->difference)
      return fail(
          {fmt::format("{}: on the shrunken mesh {}", planFile, *verified->difference), ExitStatus::InternalCheck});
    const Full &full = verified->full;
    for (size_t stage = 0; full.limited && stage < full.stages.size(); ++stage)
      if (const StageNeed &need = full.stages[stage]; need.bytes > need.limitBytes)
        return fail(
            {fmt::format(
                 "{}: stage {} needs {} a rank, the device leaves {} for it; plan again with more recomputation, "
                 "optimizer sharding or ranks, or with a smaller microbatch",
                 planFile, stage, bytesText(need.bytes), bytesText(need.limitBytes)),
             ExitStatus::Infeasible});
    return 0;
  }
};

} // namespace

void addVerify(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<VerifyCommand>(
      app, "verify",
      "Check that a plan gives the numbers of one rank: its programs at full size, and a run of a small one here.\n"
      "Example: kerf verify config.json --plan plan.json --global-batch 512 --sequence 2048",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  command->model.addTrainingTo(*sub);
  sub->add_option("--plan", command->planFile, "plan.json, complete or partial")->required();
  sub->add_option("--cluster", command->cluster, "cluster.json: its memory is the limit of every stage");
  sub->add_flag("--json", command->json, "what was checked, as JSON");
}

} // namespace kerf::tool
