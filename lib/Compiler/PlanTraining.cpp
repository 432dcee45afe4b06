// SPDX-License-Identifier: Apache-2.0
// Plans and compiles a training step, and predicts the step time and memory that every command prints.
#include "kerf/Compiler/PlanTraining.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Runtime/Cpu/Native.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace kerf {

namespace {

const StageMemory &fullestOf(const Simulation &figures) {
  return *std::max_element(figures.memory.begin(), figures.memory.end(),
                           [](const StageMemory &a, const StageMemory &b) { return a.deviceBytes < b.deviceBytes; });
}

int64_t whole(double bytes) { return static_cast<int64_t>(std::ceil(bytes)); }

/// Replaces the predicted step time and memory in `planned` by those of the simulator, for execution plans on devices
/// other than CPUs. All other plans keep the prediction from the compiled program.
Status takeFigures(PlanResult &planned, const PlanRequest &request, int64_t batch) {
  if (pricedAsLowered(request.cluster) || !isExecutionPlan(planned.plan, batch))
    return ok();
  auto context = createContext();
  SimulateOptions options{request.step, request.dtype};
  options.step.precision.reset(); // the simulator applies `dtype` itself
  Plan plan = planned.plan;
  plan.predicted.reset();
  auto simulated = simulatePlan(*context, request.model, plan, "the plan", request.cluster, options);
  if (!simulated)
    return simulated.error();
  Report &report = planned.compiled.report;
  const Breakdown &parts = simulated->simulation.breakdown;
  report.stepSeconds = simulated->simulation.stepSeconds;
  report.computeSeconds = parts.forward + parts.backward + parts.recompute + parts.optimizer;
  report.collectiveSeconds = std::accumulate(parts.exposed.begin(), parts.exposed.end(), 0.0,
                                             [](double sum, const auto &entry) { return sum + entry.second; });
  const StageMemory &fullest = fullestOf(simulated->simulation);
  report.memory = {whole(fullest.weights),
                   whole(fullest.gradients),
                   whole(fullest.states),
                   whole(fullest.activations + fullest.workspace),
                   0,
                   whole(fullest.peakBytes)};
  planned.compiled.figures = std::move(simulated->simulation);
  return ok();
}

/// Fails when the plan needs more than the memory limit of the request. Adds a warning when it needs more than the
/// devices have.
Status checkMemory(PlanResult &planned, const std::string &where, const PlanRequest &request) {
  const Simulation &figures = planned.compiled.figures;
  if (figures.memory.empty())
    return ok();
  const PlanOptions &options = request.options;
  int64_t needs = whole(fullestOf(figures).deviceBytes),
          left = withMargin(request.cluster, options.margin).device.memoryBytes;
  if (options.memoryLimitBytes && needs > *options.memoryLimitBytes)
    return Error{
        fmt::format("{} needs {} bytes ({}) on each rank, but <memory> is {} ({}); give <memory> {} or more, or a plan "
                    "with more recomputation, optimizer sharding or ranks",
                    where, needs, bytesText(needs), *options.memoryLimitBytes, bytesText(*options.memoryLimitBytes),
                    needs),
        ExitStatus::Infeasible};
  if (needs > left)
    planned.warnings.push_back(fmt::format("{} needs {} on each rank, but {} has {} for it", where, bytesText(needs),
                                           request.cluster.name, bytesText(left)));
  return ok();
}

/// Searches for a whole plan and compiles the step under it.
Result<PlanResult> planWhole(const TrainingStep &step, const PlanRequest &request) {
  auto context = createContext();
  auto job = makeWholePlanJob(*context, request);
  if (!job)
    return job.error();
  auto found = searchPlans(job->cluster, job->job, job->layouts, job->search);
  if (!found)
    return found.error();
  Plan plan = found->plans.front().plan;
  plan.clusterHash = sha256(toJson(request.cluster));
  plan.modelHash = step.modelHash;
  std::vector<std::string> notes = rankCountNotes(*job, found->plans.front());
  auto compiled = compileStep(step, plan, "the plan found", request.cluster);
  if (!compiled)
    return compiled.error();
  PlanResult planned{std::move(plan), std::move(*compiled)};
  planned.notes = std::move(notes);
  return planned;
}

Result<PlanResult> search(const TrainingStep &step, const PlanRequest &request) {
  auto kind = chooseSearch(request, batchOf(*step.module));
  if (!kind)
    return kind.error();
  const bool free = !request.search, onlyPlaced = isWholeTrainStep(step);
  if (*kind == SearchKind::Whole && !(free && onlyPlaced))
    return planWhole(step, request);
  auto planned = planStep(step, request.cluster, request.options);
  if (planned)
    planned->plan.keptKeys["report"] = toJson(planned->compiled.report);
  if (planned || planned.error().status != ExitStatus::Infeasible || !free || onlyPlaced)
    return planned;
  auto whole = planWhole(step, request);
  if (!whole)
    return planned;
  whole->notes.push_back("no placement fits into memory, so the plan comes from <search> whole");
  return whole;
}

} // namespace

Result<PlanResult> planTraining(const TrainingStep &step, const PlanRequest &request) {
  auto planned = search(step, request);
  if (!planned)
    return planned;
  planned->compiled.report.model = request.model.name;
  if (planned->plan.keptKeys.contains("report"))
    planned->plan.keptKeys["report"]["model"] = request.model.name;
  if (Status status = takeFigures(*planned, request, batchOf(*step.module)); !status)
    return status.error();
  return planned;
}

Result<PlanResult> compilePlan(const TrainingStep &step, const Plan &given, const std::string &where,
                               const PlanRequest &request) {
  Plan plan = given;
  if (request.standIn)
    plan.clusterHash.clear();
  auto compiled = compileStep(step, plan, where, request.cluster);
  if (!compiled)
    return compiled.error();
  compiled->report.model = request.model.name;
  if (plan.keptKeys.contains("report"))
    if (auto saved = parseReport(plan.keptKeys["report"], where); saved) {
      compiled->report.alternatives = saved->alternatives;
      compiled->report.memoryLimitBytes = saved->memoryLimitBytes;
    }
  PlanResult planned{given, std::move(*compiled)};
  if (Status status = takeFigures(planned, request, batchOf(*step.module)); !status)
    return status.error();
  if (Status status = checkMemory(planned, where, request); !status)
    return status.error();
  return planned;
}

Status addCodeForDevice(CompileResult &compiled, std::string_view device, bool native) {
  std::vector<std::string> best;
  if (device.substr(0, device.find(':')) == "cuda")
    return native ? addNativeCode(compiled, {codegen::kGpuArchitecture}) : leaveOutNativeCode(compiled);
  for (const char *isa : codegen::kInstructionSets)
    if (runtime::processorHas(isa))
      best = {isa};
  return native && !best.empty() ? addNativeCode(compiled, best) : leaveOutNativeCode(compiled);
}

void describeProgram(package::Program &program, const std::string &model, const TrainingStep &step, const Plan &plan) {
  program.info["model"] = model;
  program.info["model_hash"] = step.modelHash;
  program.info["plan"] = nlohmann::ordered_json::parse(toJson(plan), nullptr, /*allow_exceptions=*/false);
  program.info["plan"].erase("report");
}

} // namespace kerf
