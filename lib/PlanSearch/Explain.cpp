// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/Explain.h"
#include "CompressedStep.h"
#include "Pins.h"
#include "Tuning.h"
#include "kerf/PlanSearch/StepOfPlan.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

constexpr double kPercent = 1.01;
constexpr const char *kBatch = "global_batch";

/// A cluster and a job with one quantity scaled.
struct ChangedInputs {
  Cluster cluster;
  TrainingJob job;
  bool possible = true; // whether the quantity exists and can have this value
};

ChangedInputs changedInputs(const Cluster &cluster, const TrainingJob &job, int64_t batch, const std::string &quantity,
                            double factor) {
  ChangedInputs result{cluster, job};
  if (quantity != kBatch) {
    result.possible = scaleQuantity(result.cluster, quantity, factor);
    return result;
  }
  result.job.globalBatch = std::llround(static_cast<double>(batch) * factor);
  result.possible = job.exportedBatch == 0 && result.job.globalBatch > 0;
  return result;
}

class PlanExplainer {
public:
  PlanExplainer(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                const PlanSearchOptions &options, const FoundPlan &plan,
                const std::function<void(const std::string &)> &onSearchBegin)
      : cluster(cluster), job(job), layouts(layouts), options(options), best(plan), onSearchBegin(onSearchBegin) {}

  Result<Explanation> run();

private:
  Status answerAlternatives(Explanation &explanation);
  Status searchWithPins(Alternative &alternative);
  std::optional<double> seconds(const Plan &plan, const ChangedInputs &where);
  std::vector<BreakEven> breakEvensOf(const Plan &alternative);
  std::optional<double> breakEvenFactor(const Plan &alternative, const std::string &quantity);
  MemoryVariant withMemory(double factor);
  bool isOpen(const std::string &key) const;
  bool interrupted() const { return options.stop && options.stop(); }

  const Cluster &cluster;
  const TrainingJob &job;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  const FoundPlan &best;
  const std::function<void(const std::string &)> &onSearchBegin;
};

std::optional<double> PlanExplainer::seconds(const Plan &plan, const ChangedInputs &where) {
  if (!where.possible)
    return std::nullopt;
  auto simulated = simulatePlan(plan, where.cluster, where.job, layouts);
  return simulated ? std::optional(simulated->simulation.stepSeconds) : std::nullopt;
}

/// Returns the factor of a quantity at which the alternative becomes faster than the best plan; nothing when none of
/// the tried factors does. The global batch is only tried at fixed factors, since plans exist for few batch sizes.
std::optional<double> PlanExplainer::breakEvenFactor(const Plan &alternative, const std::string &quantity) {
  auto ahead = [&](double factor) -> std::optional<double> {
    ChangedInputs where = changedInputs(cluster, job, best.plan.globalBatch, quantity, factor);
    where.job.refineWithProgram = {}; // lowering a program for each of hundreds of factors would take too long
    auto ours = seconds(best.plan, where), theirs = seconds(alternative, where);
    return ours && theirs ? std::optional(*theirs - *ours) : std::nullopt;
  };
  std::optional<double> nearest;
  for (double factor : plansearch::kBreakEvenFactors) {
    auto there = ahead(factor);
    if (!there || *there >= 0 || (nearest && std::abs(std::log(*nearest)) <= std::abs(std::log(factor))))
      continue;
    nearest = factor;
  }
  if (!nearest || quantity == kBatch)
    return nearest;
  double stays = 1, turns = *nearest;
  while (std::max(stays, turns) > plansearch::kBreakEvenPrecision * std::min(stays, turns)) {
    double middle = std::sqrt(stays * turns);
    auto there = ahead(middle);
    (there && *there < 0 ? turns : stays) = middle;
  }
  return turns;
}

std::vector<BreakEven> PlanExplainer::breakEvensOf(const Plan &alternative) {
  std::vector<std::string> quantities = scalableQuantities(cluster);
  quantities.push_back(kBatch);
  std::vector<BreakEven> breakEvens;
  for (const std::string &quantity : quantities)
    if (auto factor = breakEvenFactor(alternative, quantity))
      breakEvens.push_back({quantity, *factor});
  std::stable_sort(breakEvens.begin(), breakEvens.end(), [](const BreakEven &a, const BreakEven &b) {
    return std::abs(std::log(a.factor)) < std::abs(std::log(b.factor));
  });
  return breakEvens;
}

/// Searches for the best plan on devices with `factor` times the memory, as `kerf plan` would.
MemoryVariant PlanExplainer::withMemory(double factor) {
  if (onSearchBegin)
    onSearchBegin(fmt::format("{:.0f} % of the memory", 100 * factor));
  Cluster resized = cluster;
  scaleQuantity(resized, "device.memory", factor);
  PlanSearchOptions with = options;
  if (with.memoryLimitBytes)
    with.memoryLimitBytes = static_cast<int64_t>(static_cast<double>(*with.memoryLimitBytes) * factor);
  with.startingPlan = best.plan;
  with.top = 1;
  with.findLeastMemory = false;
  with.progress = {};
  MemoryVariant answer;
  answer.memoryBytes = resized.device.memoryBytes;
  if (with.memoryLimitBytes)
    answer.memoryBytes = std::min(answer.memoryBytes, *with.memoryLimitBytes);
  auto found = searchPlans(resized, job, layouts, with);
  if (!found)
    return answer;
  answer.lowerBoundSeconds = found->lowerBoundSeconds;
  answer.plan = std::move(found->plans.front());
  return answer;
}

/// Returns whether the constraints leave the decision to the search.
bool PlanExplainer::isOpen(const std::string &key) const {
  const Plan &given = options.constraints;
  std::vector<std::string> pins = plansearch::pinNames(given);
  bool pinned = std::any_of(pins.begin(), pins.end(),
                            [&](const std::string &pin) { return pin == key || pin.starts_with(key + "."); });
  auto size = [&](const char *axis) { return best.plan.meshSizes.at(axis); };
  if (key == "mesh.context" || key == "mesh.expert" || key == "mesh.model")
    return !pinned && (key == "mesh.context"  ? options.contextSizes
                       : key == "mesh.expert" ? options.expertSizes
                                              : options.modelSizes)
                              .size() > 1;
  if (key == "context_style")
    return !pinned && size("context") > 1;
  if (key == "sequence_parallel") // a pinned layout decides sequence parallelism and vice versa
    return !pinned && size("model") > 1 && given.layout != OpLayout::Solved && given.sequenceParallel.empty();
  if (key == "layout")
    return !pinned && size("model") > 1 && given.sequenceParallel.empty();
  if (key == "schedule" || key == "stages")
    return !pinned && size("stage") > 1;
  if (key == "order")
    return !pinned && best.plan.mesh().axes.size() > 1;
  return !pinned;
}

/// Searches with the alternative's pins, as `kerf plan` would; the common search for all decisions may prove less.
Status PlanExplainer::searchWithPins(Alternative &alternative) {
  if (onSearchBegin)
    onSearchBegin(fmt::format("{} {}", alternative.key, decisionText(alternative.plan->plan, alternative.key)));
  PlanSearchOptions with = options;
  with.constraints = plansearch::overlaid(options.constraints, alternative.pins);
  with.startingPlan.reset();
  with.top = 1;
  with.findLeastMemory = false;
  with.progress = {};
  auto found = searchPlans(cluster, job, layouts, with);
  if (!found && job.refineWithProgram) // the plan cannot be lowered, or its program does not fit
    alternative.plan.reset();
  if (!found) // the budget ended without a plan; the known alternative stays
    return ok();
  if (job.refineWithProgram || options.compression ||
      found->plans.front().simulation.stepSeconds < alternative.plan->simulation.stepSeconds)
    alternative.plan = std::move(found->plans.front());
  return ok();
}

/// Searches for alternatives to all decisions at once, and again for each one that remains unproven.
Status PlanExplainer::answerAlternatives(Explanation &explanation) {
  std::vector<std::string> keys;
  for (const char *key : kDecisions)
    if (isOpen(key))
      keys.emplace_back(key);
  PlanSearchOptions with = options;
  with.startingPlan.reset();
  with.workBudget *= plansearch::kJointBudgets;
  with.progress = {};
  if (onSearchBegin)
    onSearchBegin(fmt::format("{}", fmt::join(keys, ", ")));
  auto answers = searchAlternatives(cluster, job, layouts, with, best.plan, keys);
  if (!answers)
    return answers.error();
  for (AlternativePlan &answer : *answers) {
    Alternative alternative{std::move(answer), "", {}};
    if (interrupted() && !alternative.plan)
      continue;
    bool compresses = options.compression || !options.constraints.compression.empty();
    if (alternative.plan && (job.refineWithProgram || compresses))
      alternative.lowerBoundSeconds = 0; // the bound holds for estimates without compression, not for programs
    if (alternative.plan && !alternative.proven() && !interrupted())
      if (Status status = searchWithPins(alternative); !status)
        return status;
    if (!alternative.plan)
      alternative.none = std::isinf(alternative.lowerBoundSeconds) ? "no such plan fits into memory, or none exists"
                                                                   : "none was found within the budget";
    if (alternative.key == "order" && !alternative.plan)
      alternative.none = "every other order uses the same links, or does not fit into memory";
    if (alternative.plan && !interrupted())
      alternative.breakEvens = breakEvensOf(alternative.plan->plan);
    explanation.alternatives.push_back(std::move(alternative));
  }
  return ok();
}

Result<Explanation> PlanExplainer::run() {
  Explanation explanation;
  explanation.constraints = options.constraints;
  const Simulation &simulation = best.simulation;
  for (size_t s = 0; s < simulation.memory.size(); ++s) {
    const StageMemory &fullest = simulation.memory[explanation.fullestStage];
    if (simulation.memory[s].deviceBytes / simulation.memory[s].limitBytes > fullest.deviceBytes / fullest.limitBytes)
      explanation.fullestStage = s;
  }
  for (const std::string &quantity : scalableQuantities(cluster)) {
    auto more = seconds(best.plan, changedInputs(cluster, job, best.plan.globalBatch, quantity, kPercent));
    if (!more)
      return Error{"the plan cannot be simulated on this cluster, because it was found for another one; plan again for "
                   "this cluster",
                   ExitStatus::InternalCheck};
    explanation.sensitivities.push_back({quantity, *more - simulation.stepSeconds});
  }
  std::stable_sort(
      explanation.sensitivities.begin(), explanation.sensitivities.end(),
      [](const Sensitivity &a, const Sensitivity &b) { return a.secondsPerPercent < b.secondsPerPercent; });
  explanation.moreMemory = withMemory(1 + kMemoryStep);
  explanation.lessMemory = withMemory(1 - kMemoryStep);
  if (interrupted())
    return Error{"interrupted before the first decision was explained; let the command run longer"};
  if (Status status = answerAlternatives(explanation); !status)
    return status.error();
  return explanation;
}

} // namespace

std::vector<std::string> scalableQuantities(const Cluster &cluster) {
  std::vector<std::string> quantities = {"device.flops", "device.memory_bandwidth"};
  auto add = [&](const std::string &link) {
    for (const char *what : {"bandwidth", "latency"})
      if (std::string name = fmt::format("{}.{}", link, what);
          std::find(quantities.begin(), quantities.end(), name) == quantities.end())
        quantities.push_back(name);
  };
  for (const Cluster &part : cluster.mixed() ? cluster.groups : std::vector<Cluster>{cluster})
    for (const Level &level : part.levels)
      if (level.size > 1)
        add(level.name);
  if (cluster.mixed())
    add("between");
  return quantities;
}

bool scaleQuantity(Cluster &cluster, const std::string &name, double factor) {
  if (cluster.mixed()) { // the quantity is scaled in every group that has it
    bool found = false;
    for (Cluster &group : cluster.groups)
      found |= scaleQuantity(group, name, factor);
    for (GroupLink &link : cluster.groupLinks) {
      if (name == "between.bandwidth") {
        link.bandwidth *= factor;
        link.nodeBandwidth *= factor;
      } else if (name == "between.latency") {
        link.latency *= factor;
      }
    }
    return found || name == "between.bandwidth" || name == "between.latency";
  }
  if (name == "device.flops") {
    for (auto &[dtype, flops] : cluster.device.peakFlops)
      flops *= factor;
    return true;
  }
  if (name == "device.memory_bandwidth") {
    cluster.device.memoryBandwidth *= factor;
    return true;
  }
  if (name == "device.memory") {
    cluster.device.memoryBytes = std::llround(static_cast<double>(cluster.device.memoryBytes) * factor);
    return true;
  }
  bool found = false;
  for (Level &level : cluster.levels) {
    if (name == level.name + ".latency") {
      level.latency *= factor;
      found = true;
    } else if (name == level.name + ".bandwidth") {
      level.bandwidth *= factor;
      level.nodeBandwidth *= factor;
      level.switchBandwidth *= factor;
      found = true;
    }
  }
  return found;
}

Result<FoundPlan> simulatePlan(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                               const LayoutSource &layouts) {
  auto prepared = plansearch::prepareStep(plan, cluster, job, layouts);
  if (!prepared)
    return prepared.error();
  auto simulation = simulate(prepared->work, prepared->step, *prepared->pipeline);
  if (!simulation)
    return simulation.error();
  CompletedPlan &completed = prepared->completed;
  Simulation plain = *simulation;
  if (job.refineWithProgram) {
    Plan withoutCompression = completed.plan;
    withoutCompression.compression.clear();
    if (Status status = job.refineWithProgram(withoutCompression, completed.cluster, *simulation); !status)
      return status.error();
    simulation->uncertainty = uncertaintyOfProgram(*simulation);
  } else {
    auto pipelineOn = [&](const Cluster &on) { return PipelineModel::make(completed.mesh, on); };
    auto uncertainty = uncertaintyOf(prepared->work, prepared->step, completed.cluster, pipelineOn, *simulation);
    if (!uncertainty)
      return uncertainty.error();
    simulation->uncertainty = std::move(*uncertainty);
  }
  if (!completed.plan.compression.empty()) {
    auto step = withCompression(prepared->view(job), completed.plan.compression);
    if (!step)
      return step.error();
    auto coded = simulate(prepared->work, *step, *prepared->pipeline);
    if (!coded)
      return coded.error();
    addDifference(*simulation, plain, *coded);
    recenter(*simulation->uncertainty, *simulation);
  }
  return FoundPlan{std::move(completed.plan), std::move(*simulation)};
}

Result<Explanation> explainPlan(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                const PlanSearchOptions &options, const FoundPlan &plan,
                                const std::function<void(const std::string &)> &onSearchBegin) {
  return PlanExplainer(cluster, job, layouts, options, plan, onSearchBegin).run();
}

Plan withPins(const Plan &constraints, const Plan &pins) { return plansearch::overlaid(constraints, pins); }

nlohmann::ordered_json constraintsJson(const Plan &pins) {
  auto json = nlohmann::ordered_json::parse(toJson(pins));
  if (json.contains("mesh") && json.at("mesh").empty())
    json.erase("mesh");
  return json;
}

/// Returns the plan's axes of more than one rank, outermost first.
static std::vector<std::string> axesOf(const Plan &plan) {
  std::vector<std::string> names;
  for (const MeshAxis &axis : plan.mesh().axes)
    names.push_back(axis.name);
  return names;
}

std::string decisionText(const Plan &plan, const std::string &key) {
  if (key == "order")
    return fmt::format("{}", fmt::join(axesOf(plan), " "));
  if (key == "schedule") {
    return scheduleText(plan.schedule.name, plan.schedule.variant, plan.schedule.chunks);
  }
  if (key == "stages") {
    std::vector<int64_t> counts;
    for (const StageLayers &run : plan.stages)
      counts.push_back(run.layers ? run.layers->second - run.layers->first + 1 : 0);
    std::string text = fmt::format("{} layers", fmt::join(counts, " "));
    for (const StageLayers &run : plan.stages)
      if (run.chunk == 0 && !run.mesh.empty())
        text += fmt::format(", stage {}: {}", run.stage, stageMeshText(run.mesh));
    return text;
  }
  std::string value = plansearch::pinValue(plan, key).value_or("-");
  std::erase(value, '"');
  return value;
}

std::vector<PlanDifference> differences(const Plan &one, const Plan &other) {
  std::vector<std::string> keys(std::begin(kDecisions), std::end(kDecisions));
  for (const Plan *plan : {&one, &other})
    for (const std::string &pin : plansearch::pinNames(*plan))
      if (!pin.starts_with("schedule.") && std::find(keys.begin(), keys.end(), pin) == keys.end())
        keys.push_back(pin);
  std::vector<PlanDifference> list;
  for (const std::string &key : keys) {
    bool same = key == "order" ? axesOf(one) == axesOf(other) : decisionText(one, key) == decisionText(other, key);
    if (!same)
      list.push_back({key, decisionText(one, key), decisionText(other, key)});
  }
  return list;
}

} // namespace kerf
