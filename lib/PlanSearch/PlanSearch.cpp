// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/PlanSearch.h"
#include "Pins.h"
#include "SearchCompressed.h"
#include "SearchLowered.h"
#include "TreeSearch.h"
#include "Tuning.h"
#include "kerf/PlanSearch/MemoryText.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace kerf {

using namespace plansearch;

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
} // namespace

Result<std::vector<AlternativePlan>> searchAlternatives(const Cluster &cluster, const TrainingJob &job,
                                                        const LayoutSource &layouts, const PlanSearchOptions &options,
                                                        const Plan &baseline, const std::vector<std::string> &keys) {
  if (keys.empty())
    return std::vector<AlternativePlan>();
  MemoryLimit limit{options.memoryLimitBytes ? static_cast<double>(*options.memoryLimitBytes) : kInfinity};
  PlanSearchOptions one = options;
  one.top = 1;
  auto list = TreeSearch(cluster, job, layouts, one, limit).findAlternatives(DecisionQuestions(baseline, keys));
  if (!list)
    return list.error();
  for (AlternativePlan &answer : *list)
    if (answer.plan)
      answer.pins = pinsOfAlternative(answer.key, answer.plan->plan, baseline);
  return list;
}

/// Describes the plan that needs the least memory, and what it uses the memory for.
static std::string leastText(const FoundPlan &least, bool limitGiven) {
  std::vector<std::string> axes;
  for (const auto &[name, size] : least.plan.mesh().axes)
    axes.push_back(fmt::format("{} {}", name, size));
  const StageMemory &fullest = fullestStage(least.simulation);
  return fmt::format("; the smallest found needs {:.0f} bytes ({}) a device, on {}: {}{}",
                     std::ceil(fullest.deviceBytes), bytesText(fullest.deviceBytes),
                     axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " x ")),
                     memoryText(least.simulation),
                     limitGiven ? "; give <memory> as much, more ranks, or devices with more memory"
                                : "; take more ranks, or devices with more memory");
}

Result<FoundPlans> plansearch::searchEstimates(const Cluster &cluster, const TrainingJob &job,
                                               const LayoutSource &layouts, const PlanSearchOptions &options) {
  MemoryLimit limit{options.memoryLimitBytes ? static_cast<double>(*options.memoryLimitBytes) : kInfinity};
  TreeSearch search(cluster, job, layouts, options, limit);
  auto found = search.run();
  if (found || !search.contradicted() || !options.findLeastMemory)
    return found;
  PlanSearchOptions quick = options;
  quick.workBudget = std::min(options.workBudget, kUsualWork) / kQuickShare;
  quick.top = 1;
  std::vector<std::string> conflict = conflictingPins(options.constraints, [&](const Plan &pins) {
    quick.constraints = pins;
    return static_cast<bool>(TreeSearch(cluster, job, layouts, quick, limit, TreeSearch::Goal::AnyFittingPlan).run());
  });
  for (std::string &pin : conflict)
    pin = pinText(options.constraints, pin);
  Error error = found.error();
  quick.constraints = options.constraints;
  bool forMemory = error.status == ExitStatus::Infeasible;
  if (forMemory) {
    TreeSearch roomy(cluster, job, layouts, quick, MemoryLimit{kInfinity, /*cappedByDevice=*/false},
                     TreeSearch::Goal::AnyFittingPlan);
    forMemory = roomy.run() || !roomy.contradicted();
    if (!forMemory)
      error = {fmt::format("{}: no plan for {} of {} meets the constraints, even with unlimited memory",
                           options.constraintsFile, countText(cluster.ranks(), "rank"), cluster.name),
               ExitStatus::Infeasible};
  }
  if (conflict.size() == 1)
    error.message += fmt::format("; without {} there is a plan", conflict.front());
  else if (!conflict.empty())
    error.message += fmt::format("; these pins conflict, and without any one of them there is a plan: {}",
                                 fmt::join(conflict, ", "));
  if (!forMemory)
    return error;
  // Bisects the least sufficient memory: the limit doubles until some plan fits.
  std::optional<FoundPlan> least;
  double tooLittle = limit.onDevice(cluster.mixed() ? cluster.groups.front().device : cluster.device);
  double enough = kInfinity;
  for (int i = 0; i < kLeastMemoryTries && enough > tooLittle * kLeastMemoryPrecision; ++i) {
    double tried = std::isinf(enough) ? 2 * tooLittle : (tooLittle + enough) / 2;
    auto some = TreeSearch(cluster, job, layouts, quick, MemoryLimit{tried, /*cappedByDevice=*/false},
                           TreeSearch::Goal::AnyFittingPlan)
                    .run();
    if (some) {
      enough = std::min(tried, maxDeviceBytes(some->plans.front().simulation));
      least = std::move(some->plans.front());
    } else {
      tooLittle = tried;
    }
  }
  if (least)
    error.message += leastText(*least, options.memoryLimitBytes.has_value());
  return error;
}

Result<FoundPlans> plansearch::searchUncompressed(const Cluster &cluster, const TrainingJob &job,
                                                  const LayoutSource &layouts, const PlanSearchOptions &options) {
  return job.refineWithProgram ? searchLowered(cluster, job, layouts, options)
                               : searchEstimates(cluster, job, layouts, options);
}

Result<FoundPlans> searchPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                               const PlanSearchOptions &options) {
  if (options.compression || !options.constraints.compression.empty())
    return searchCompressed(cluster, job, layouts, options);
  return searchUncompressed(cluster, job, layouts, options);
}

} // namespace kerf
