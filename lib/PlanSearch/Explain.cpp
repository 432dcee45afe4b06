// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/Explain.h"
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
struct Changed {
  Cluster cluster;
  TrainingJob job;
  bool possible = true;
};

Changed changed(const Cluster &cluster, const TrainingJob &job, int64_t batch, const std::string &quantity,
                double factor) {
  Changed result{cluster, job};
  if (quantity != kBatch) {
    result.possible = scaleQuantity(result.cluster, quantity, factor);
    return result;
  }
  result.job.globalBatch = std::llround(static_cast<double>(batch) * factor);
  result.possible = job.exportedBatch == 0 && result.job.globalBatch > 0;
  return result;
}

class Explaining {
public:
  Explaining(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
             const PlanSearchOptions &options, const FoundPlan &plan,
             const std::function<void(const std::string &)> &begun)
      : cluster(cluster), job(job), layouts(layouts), options(options), best(plan), begun(begun) {}

  Result<Explanation> run();

private:
  Status answerAlternatives(Explanation &explanation);
  Status searchWithPins(Alternative &alternative);
  std::optional<double> seconds(const Plan &plan, const Changed &where);
  std::vector<Flip> flipsOf(const Plan &alternative);
  std::optional<double> flip(const Plan &alternative, const std::string &quantity);
  OtherMemory withMemory(double factor);
  bool isOpen(const std::string &key) const;
  bool interrupted() const { return options.stop && options.stop(); }

  const Cluster &cluster;
  const TrainingJob &job;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  const FoundPlan &best;
  const std::function<void(const std::string &)> &begun;
};

std::optional<double> Explaining::seconds(const Plan &plan, const Changed &where) {
  if (!where.possible)
    return std::nullopt;
  auto simulated = simulateWhole(plan, where.cluster, where.job, layouts);
  return simulated ? std::optional(simulated->simulation.stepSeconds) : std::nullopt;
}

/// Positive while the best plan is the faster one; the batch divides only at some factors.
std::optional<double> Explaining::flip(const Plan &alternative, const std::string &quantity) {
  auto ahead = [&](double factor) -> std::optional<double> {
    Changed where = changed(cluster, job, best.plan.globalBatch, quantity, factor);
    where.job.asLowered = {}; // hundreds of questions: the simulator's estimates are compared
    auto ours = seconds(best.plan, where), theirs = seconds(alternative, where);
    return ours && theirs ? std::optional(*theirs - *ours) : std::nullopt;
  };
  std::optional<double> nearest;
  for (double factor : plansearch::kFactors) {
    auto there = ahead(factor);
    if (!there || *there >= 0 || (nearest && std::abs(std::log(*nearest)) <= std::abs(std::log(factor))))
      continue;
    nearest = factor;
  }
  if (!nearest || quantity == kBatch)
    return nearest;
  double stays = 1, turns = *nearest;
  while (std::max(stays, turns) > plansearch::kFlipPrecision * std::min(stays, turns)) {
    double middle = std::sqrt(stays * turns);
    auto there = ahead(middle);
    (there && *there < 0 ? turns : stays) = middle;
  }
  return turns;
}

std::vector<Flip> Explaining::flipsOf(const Plan &alternative) {
  std::vector<std::string> quantities = quantitiesOf(cluster);
  quantities.push_back(kBatch);
  std::vector<Flip> flips;
  for (const std::string &quantity : quantities)
    if (auto factor = flip(alternative, quantity))
      flips.push_back({quantity, *factor});
  std::stable_sort(flips.begin(), flips.end(), [](const Flip &a, const Flip &b) {
    return std::abs(std::log(a.factor)) < std::abs(std::log(b.factor));
  });
  return flips;
}

/// The search that `kerf plan` does on devices of so much memory.
OtherMemory Explaining::withMemory(double factor) {
  if (begun)
    begun(fmt::format("{:.0f} % of the memory", 100 * factor));
  Cluster resized = cluster;
  scaleQuantity(resized, "device.memory", factor);
  PlanSearchOptions with = options;
  if (with.memoryLimitBytes)
    with.memoryLimitBytes = static_cast<int64_t>(static_cast<double>(*with.memoryLimitBytes) * factor);
  with.from = best.plan;
  with.top = 1;
  with.leastMemory = false;
  with.progress = {};
  OtherMemory answer;
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

/// The constraints leave the decision to the search.
bool Explaining::isOpen(const std::string &key) const {
  const Plan &given = options.constraints;
  std::vector<std::string> pins = plansearch::pinsOf(given);
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
  if (key == "sequence_parallel") // a pin of one decides the other
    return !pinned && size("model") > 1 && given.layout != OpLayout::Solved && given.sequenceParallel.empty();
  if (key == "layout")
    return !pinned && size("model") > 1 && given.sequenceParallel.empty();
  if (key == "schedule" || key == "stages")
    return !pinned && size("stage") > 1;
  if (key == "order")
    return !pinned && best.plan.mesh().axes.size() > 1;
  return !pinned;
}

/// The search that `kerf plan` does with these pins, which may know more than the one for all decisions.
Status Explaining::searchWithPins(Alternative &alternative) {
  if (begun)
    begun(fmt::format("{} {}", alternative.key, decisionText(alternative.plan->plan, alternative.key)));
  PlanSearchOptions with = options;
  with.constraints = plansearch::overlaid(options.constraints, alternative.pins);
  with.from.reset();
  with.top = 1;
  with.leastMemory = false;
  with.progress = {};
  auto found = searchPlans(cluster, job, layouts, with);
  if (!found && job.asLowered) // the estimate cannot be lowered, or its program does not fit
    alternative.plan.reset();
  if (!found) // nothing within the budget; what is known stays
    return ok();
  if (job.asLowered || found->plans.front().simulation.stepSeconds < alternative.plan->simulation.stepSeconds)
    alternative.plan = std::move(found->plans.front());
  return ok();
}

/// What remains open after one search for all decisions is asked again by its pins.
Status Explaining::answerAlternatives(Explanation &explanation) {
  std::vector<std::string> keys;
  for (const char *key : kDecisions)
    if (isOpen(key))
      keys.emplace_back(key);
  PlanSearchOptions with = options;
  with.from.reset();
  with.workBudget *= plansearch::kJointBudgets;
  with.progress = {};
  if (begun)
    begun(fmt::format("{}", fmt::join(keys, ", ")));
  auto answers = searchOtherwise(cluster, job, layouts, with, best.plan, keys);
  if (!answers)
    return answers.error();
  for (OtherwisePlan &answer : *answers) {
    Alternative alternative{std::move(answer), "", {}};
    if (interrupted() && !alternative.plan)
      continue;
    if (alternative.plan && job.asLowered)
      alternative.lowerBoundSeconds = 0; // it was found by estimates
    if (alternative.plan && !alternative.proven() && !interrupted())
      if (Status status = searchWithPins(alternative); !status)
        return status;
    if (!alternative.plan)
      alternative.none = std::isinf(alternative.lowerBoundSeconds) ? "no such plan fits, or there is none of this mesh"
                                                                   : "none was found within the budget";
    if (alternative.key == "order" && !alternative.plan)
      alternative.none = "every other order lies on the same links, or does not fit";
    if (alternative.plan && !interrupted())
      alternative.flips = flipsOf(alternative.plan->plan);
    explanation.alternatives.push_back(std::move(alternative));
  }
  return ok();
}

Result<Explanation> Explaining::run() {
  Explanation explanation;
  explanation.constraints = options.constraints;
  const Simulation &simulation = best.simulation;
  for (size_t s = 0; s < simulation.memory.size(); ++s) {
    const StageMemory &fullest = simulation.memory[explanation.fullestStage];
    if (simulation.memory[s].deviceBytes / simulation.memory[s].limitBytes > fullest.deviceBytes / fullest.limitBytes)
      explanation.fullestStage = s;
  }
  for (const std::string &quantity : quantitiesOf(cluster)) {
    auto more = seconds(best.plan, changed(cluster, job, best.plan.globalBatch, quantity, kPercent));
    if (!more)
      return Error{"the plan cannot be simulated on its own cluster; it was found for another one",
                   ExitStatus::InternalCheck};
    explanation.sensitivities.push_back({quantity, *more - simulation.stepSeconds});
  }
  std::stable_sort(
      explanation.sensitivities.begin(), explanation.sensitivities.end(),
      [](const Sensitivity &a, const Sensitivity &b) { return a.secondsPerPercent < b.secondsPerPercent; });
  explanation.moreMemory = withMemory(1 + kMemoryStep);
  explanation.lessMemory = withMemory(1 - kMemoryStep);
  if (interrupted())
    return Error{"interrupted before the first decision was explained"};
  if (Status status = answerAlternatives(explanation); !status)
    return status.error();
  return explanation;
}

} // namespace

std::vector<std::string> quantitiesOf(const Cluster &cluster) {
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
  if (cluster.mixed()) { // in every group that has it
    bool found = false;
    for (Cluster &group : cluster.groups)
      found |= scaleQuantity(group, name, factor);
    for (Between &link : cluster.between) {
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

Result<FoundPlan> simulateWhole(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                                const LayoutSource &layouts) {
  Plan asked = plan;
  asked.predicted.reset();
  if (job.globalBatch)
    asked.globalBatch = job.globalBatch;
  TrainingJob anyRanks = job;
  anyRanks.ranks.reset();
  auto completed = completePlan(std::move(asked), "the plan", cluster, anyRanks);
  if (!completed)
    return completed.error();
  auto model = layouts(layoutOf(completed->plan));
  if (!model)
    return model.error();
  if (!*model)
    return Error{fmt::format("{} cannot be laid out as the plan says", job.model)};
  auto work = stepWork(*completed, anyRanks, **model);
  if (!work)
    return work.error();
  auto step = stepPlan(*completed, anyRanks, **model);
  if (!step)
    return step.error();
  auto pipeline = PipelineModel::make(completed->mesh, completed->cluster);
  if (!pipeline)
    return pipeline.error();
  auto simulation = simulate(*work, *step, *pipeline);
  if (!simulation)
    return simulation.error();
  if (job.asLowered)
    if (Status status = job.asLowered(completed->plan, completed->cluster, *simulation); !status)
      return status.error();
  return FoundPlan{std::move(completed->plan), std::move(*simulation)};
}

Result<Explanation> explainPlan(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                const PlanSearchOptions &options, const FoundPlan &plan,
                                const std::function<void(const std::string &)> &begun) {
  return Explaining(cluster, job, layouts, options, plan, begun).run();
}

Plan withPins(const Plan &constraints, const Plan &pins) { return plansearch::overlaid(constraints, pins); }

nlohmann::ordered_json constraintsJson(const Plan &pins) {
  auto json = nlohmann::ordered_json::parse(toJson(pins));
  if (json.contains("mesh") && json.at("mesh").empty())
    json.erase("mesh");
  return json;
}

/// Outermost first, without those of one rank, which may lie anywhere.
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
    for (const std::string &pin : plansearch::pinsOf(*plan))
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
