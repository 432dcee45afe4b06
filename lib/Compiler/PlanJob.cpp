// SPDX-License-Identifier: Apache-2.0
// Finds the best plan of a training job, and describes the job in the plan.
#include "kerf/Compiler/PlanJob.h"
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/PlanSearch/Explain.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <limits>

namespace kerf {

using Json = nlohmann::ordered_json;

Result<SearchKind> decideSearch(const PlanRequest &request, bool wholeOnly) {
  if (request.compression && request.trainer != &ownTrainer())
    return Error{fmt::format("<compress> is for Kerf's own programs, but <for> is {}; leave one of the two out",
                             request.trainer->name)};
  if (request.compression && request.search == SearchKind::Placement)
    return Error{"<compress> is a part of whole plans, but <search> is placement; leave one of the two out"};
  wholeOnly = wholeOnly || request.compression;
  if (request.trainer != &ownTrainer() && request.search == SearchKind::Placement)
    return Error{
        fmt::format("<search=placement> finds plans for Kerf's own programs, but <for> is {}; leave one of the two out",
                    request.trainer->name)};
  if (request.trainer != &ownTrainer())
    return SearchKind::Whole;
  auto kind = chooseSearch(request, 0);
  if (!kind || request.search)
    return kind;
  if (wholeOnly || request.from)
    return SearchKind::Whole;
  if (*kind == SearchKind::Placement || request.model.format != ModelFormat::Mlir)
    return kind;
  auto context = createContext();
  auto imported = importTrainingStep(*context, request.model, request.step);
  if (!imported)
    return imported.error();
  return isWholeTrainStep(*imported) ? SearchKind::Placement : SearchKind::Whole;
}

Status preferSafePlan(std::vector<FoundPlan> &plans, double risk, int64_t most) {
  auto isSafe = [&](const FoundPlan &one) {
    const auto &its = one.simulation.uncertainty;
    for (size_t s = 0; its && s < one.simulation.memory.size(); ++s)
      if (exceededAtRisk(its->deviceBytes[s], risk) > one.simulation.memory[s].limitBytes)
        return false;
    return true;
  };
  double least = std::numeric_limits<double>::infinity();
  for (const FoundPlan &one : plans)
    least = std::min(least, maxDeviceBytes(one.simulation));
  std::erase_if(plans, [&](const FoundPlan &one) { return !isSafe(one); });
  if (plans.empty())
    return Error{
        fmt::format("of the plans found, none fits into the devices' memory with a probability of {:.0f} %; the "
                    "smallest needs {}; give a larger <risk>, or more ranks",
                    100 * (1 - risk), bytesText(least)),
        ExitStatus::Infeasible};
  auto seconds = [&](const FoundPlan &one) {
    return one.simulation.uncertainty ? one.simulation.uncertainty->secondsAtRisk(risk) : one.simulation.stepSeconds;
  };
  std::ranges::stable_sort(plans, std::less(), seconds);
  plans.resize(std::min(plans.size(), static_cast<size_t>(most)));
  return ok();
}

Plan WholePlans::best(Json describedJob, const Cluster &cluster) const {
  Plan plan = found.plans.front().plan;
  plan.clusterHash = sha256(toJson(cluster));
  plan.keptKeys["job"] = std::move(describedJob);
  plan.keptKeys["job"]["outside"] = found.outsideSpace;
  return plan;
}

namespace {

constexpr int kPlansToChooseFrom = 16; // plans among which <risk> chooses

/// Adds to each plan found how sure its prediction is.
void addIntervals(WholePlans &plans) {
  for (FoundPlan &one : plans.found.plans) {
    auto priced = simulatePlan(one.plan, plans.job.cluster, plans.job.job, plans.job.layouts);
    if (!priced || !priced->simulation.uncertainty)
      continue;
    one.simulation.uncertainty = std::move(priced->simulation.uncertainty);
    if (one.plan.predicted)
      setIntervals(*one.plan.predicted, *one.simulation.uncertainty);
  }
}

} // namespace

Result<WholePlans> searchWholePlans(mlir::MLIRContext &context, const PlanRequest &request,
                                    const WholePlanCalls &calls) {
  auto job = makeWholePlanJob(context, request);
  if (!job)
    return job.error();
  job->search.top = static_cast<int>(calls.top + 1);
  if (calls.risk)
    job->search.top = std::max(job->search.top, kPlansToChooseFrom);
  job->search.progress = calls.progress;
  auto found = searchPlans(job->cluster, job->job, job->layouts, job->search);
  if (!found)
    return found.error();
  WholePlans plans{std::move(*job), std::move(*found), {}, {}};
  addIntervals(plans);
  if (calls.risk)
    if (Status status = preferSafePlan(plans.found.plans, *calls.risk, calls.top + 1); !status)
      return status.error();
  const FoundPlan &best = plans.found.plans.front();
  plans.notes = rankCountNotes(plans.job, best);
  if (calls.pareto)
    plans.pareto =
        paretoPlans(plans.job.cluster, plans.job.job, plans.job.layouts, plans.job.search, best, calls.onSearchBegin);
  return plans;
}

Result<StepReport> reportOn(const std::string &model, const Cluster &cluster, const SimulatedPlan &simulated) {
  auto pipeline = pipelineOf(simulated.plan, simulated.cluster);
  if (!pipeline)
    return pipeline.error();
  StepReport report =
      stepReport(model, cluster, simulated.plan, simulated.work, simulated.step, *pipeline, simulated.simulation);
  report.warnings.insert(report.warnings.end(), simulated.warnings.begin(), simulated.warnings.end());
  return report;
}

Result<StepReport> reportOn(mlir::MLIRContext &context, const PlanRequest &request, const WholePlans &plans,
                            const Plan &best) {
  SimulateOptions options{request.step, request.dtype, plans.job.job.trainer, std::nullopt, Trace::Yes};
  options.step.precision.reset(); // types are `dtype`'s
  auto simulated = simulatePlan(context, request.model, best, "the plan found", plans.job.cluster, options);
  if (!simulated)
    return simulated.error();
  auto report = reportOn(request.model.name, plans.job.cluster, *simulated);
  if (!report)
    return report;
  const FoundPlans &found = plans.found;
  if (found.lowerBoundSeconds > 0) // for compiled CPU programs no lower bound is known
    report->lowerBoundSeconds = found.lowerBoundSeconds;
  report->outside = found.outsideSpace;
  report->statistics = found.statistics;
  report->others.assign(found.plans.begin() + 1, found.plans.end());
  report->pareto = plans.pareto;
  return report;
}

Error withRemedies(Error error, const PlanRequest &request, const Cluster &whole) {
  if (error.status != ExitStatus::Infeasible)
    return error;
  Remedies remedies = findRemedies(request, whole);
  std::vector<std::string> found;
  if (remedies.ranks)
    found.push_back(*remedies.ranks <= whole.ranks() ? fmt::format("<ranks={}>", *remedies.ranks)
                                                     : fmt::format("{} ranks of such devices ({} has {})",
                                                                   *remedies.ranks, whole.name, whole.ranks()));
  if (remedies.optimizer)
    found.push_back(fmt::format("<optimizer={}>", *remedies.optimizer));
  if (remedies.dtype)
    found.push_back(fmt::format("<dtype={}>", *remedies.dtype));
  error.message +=
      found.empty()
          ? "; no remedy was found: neither up to 64 times as many ranks of such devices nor <optimizer=sgd> fits"
          : fmt::format("; these changes make it fit: {}", fmt::join(found, ", or "));
  return error;
}

namespace {

/// Returns the job of the question in the form that plan.json stores: only settings that a job may have, and with the
/// defaults of the settings on which the meaning of others depends.
Result<Json> describe(const PlanQuestion &question, const JobSettings &settings, const Cluster &whole, int64_t ranks,
                      const Plan &constraints) {
  Json options = {{"optimizer", settings.model.optimizer},
                  {"clip_norm", settings.model.clipNorm},
                  {"dtype", settings.model.dtype},
                  {"mode", settings.search.mode}};
  const OptimizerRecord &optimizer = *findOptimizer(settings.model.optimizer);
  if (!optimizer.fallback && settings.model.groups.empty())
    for (const OptimizerSetting &setting : optimizer.settings) {
      std::string key = setting.name;
      std::replace(key.begin(), key.end(), '-', '_');
      options[key] = setting.kind == SettingKind::Switch ? Json(setting.defaultValue != 0) : Json(setting.defaultValue);
    }
  for (const auto &[key, value] : question.settings.items())
    if (key != "ranks" && key != "search" && key != "budget" && key != "top")
      options[key] = value;
  if (settings.search.memory)
    options["memory"] = settings.search.memory;
  return completeJob(Json{{"model", question.model.name}, {"options", std::move(options)}}, whole, ranks, constraints);
}

/// Returns a warning if the program of the plan needs more memory than an accelerator has, although the search
/// predicted that the plan fits; nothing if it fits, if the prediction leaves half of the memory free, or for an
/// export.
std::optional<std::string> programWarning(mlir::MLIRContext &context, const PlanRequest &request, const Plan &plan,
                                          Simulation simulation) {
  const DeviceSpec &device = request.cluster.device;
  auto limit = static_cast<double>(device.memoryBytes);
  const double predicted = maxDeviceBytes(simulation);
  if (request.trainer != &ownTrainer() || request.cluster.mixed() || device.kind == "cpu" || predicted < limit / 2 ||
      !request.model.isConfig()) // to compile an export of this size takes long
    return std::nullopt;
  LoweredFigures figures(context, request.model, request.step, request.dtype);
  if (!figures.apply(plan, "the plan", request.cluster, simulation)) // `compile` says why there is no program
    return std::nullopt;
  for (size_t stage = 0; stage < simulation.memory.size(); ++stage)
    if (double bytes = simulation.memory[stage].deviceBytes + device.curves.contextBytes; bytes > limit)
      return fmt::format(
          "the program of this plan needs {} on stage {}, more than the {} of the device, where the search "
          "predicted at most {}; plan again with <memory={:.0f}>, or with more ranks",
          bytesText(bytes), stage, bytesText(limit), bytesText(predicted), limit * predicted / bytes);
  return std::nullopt;
}

Result<PlannedJob> planWhole(mlir::MLIRContext &context, const PlanQuestion &question, const JobSettings &settings,
                             const PlanRequest &request, const Cluster &whole) {
  if (std::string name = settings.precision.firstGiven(); !name.empty() && !pricedAsLowered(request.cluster))
    return Error{
        fmt::format("<{}> applies to <search=placement> only; a whole plan has the key gradient_dtype instead", name)};
  auto plans = searchWholePlans(context, request, {settings.search.top, question.pareto, question.progress});
  if (!plans)
    return withRemedies(plans.error(), request, whole);
  auto described = describe(question, settings, whole, request.cluster.ranks(), plans->job.search.constraints);
  if (!described)
    return described.error();
  PlannedJob planned{plans->best(std::move(*described), request.cluster),
                     toText(plans->found, request.model.name, request.cluster), plans->job.warnings(), plans->notes};
  // Who ends a search does not wait for the program of a large plan, which may take half a minute.
  bool isEnded = question.stop && question.stop();
  if (!isEnded)
    if (auto warning = programWarning(context, request, planned.plan, plans->found.plans.front().simulation))
      planned.warnings.push_back(std::move(*warning));
  planned.others.assign(plans->found.plans.begin() + 1, plans->found.plans.end());
  planned.pareto = std::move(plans->pareto);
  return planned;
}

Result<PlannedJob> planPlacement(mlir::MLIRContext &context, const PlanQuestion &question, const JobSettings &settings,
                                 const PlanRequest &request, const Cluster &whole) {
  if (question.pareto || question.from)
    return Error{
        fmt::format("<{0}> applies to <search=whole> only; add <search=whole>", question.pareto ? "pareto" : "from")};
  StepOptions options = request.step;
  if (Status status = setPlanDependentOptions(options, question.constraints, question.constraintsFile); !status)
    return status.error();
  auto step = importTrainingStep(context, question.model, options);
  if (!step)
    return step.error();
  if (Status status = checkDtype(request.cluster, request.dtype); !status)
    return status.error();
  auto result = planTraining(*step, request);
  if (!result)
    return request.search == SearchKind::Placement || isWholeTrainStep(*step)
               ? result.error()
               : withRemedies(result.error(), request, whole);
  auto described = describe(question, settings, whole, result->compiled.report.ranks, question.constraints);
  if (!described)
    return described.error();
  std::vector<std::string> warnings = step->warnings;
  warnings.insert(warnings.end(), result->warnings.begin(), result->warnings.end());
  result->plan.keptKeys["job"] = std::move(*described);
  return PlannedJob{std::move(result->plan), toText(result->compiled.report), std::move(warnings), result->notes};
}

} // namespace

Result<PlannedJob> planJob(mlir::MLIRContext &context, const PlanQuestion &question) {
  auto settings = readSettings(question.settings, /*strict=*/true);
  if (!settings)
    return settings.error();
  auto wanted = settings->search.wantedRanks();
  if (!wanted)
    return wanted.error();
  Result<Cluster> used = !question.cluster ? thisMachine(*wanted ? *wanted : 1)
                         : *wanted         ? firstRanks(*question.cluster, *wanted)
                                           : *question.cluster;
  if (!used)
    return used.error();
  auto request = makePlanRequest(question.model, *settings, *used, question.constraints, question.constraintsFile);
  if (!request)
    return request.error();
  request->standIn = !question.cluster;
  request->from = question.from;
  request->stop = question.stop;
  auto kind = decideSearch(*request, question.pareto);
  if (!kind)
    return kind.error();
  const Cluster &whole = question.cluster ? *question.cluster : *used;
  auto planned = *kind == SearchKind::Whole ? planWhole(context, question, *settings, *request, whole)
                                            : planPlacement(context, question, *settings, *request, whole);
  if (planned)
    planned->pricePerHour = whole.pricePerHour;
  return planned;
}

} // namespace kerf
