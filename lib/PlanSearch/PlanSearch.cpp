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

namespace kerf {

using namespace plansearch;

namespace {
constexpr double kRoundingOfSums = 1 + 1e-9; // relative difference of sums of doubles in another order
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
static std::string leastText(const FoundPlan &least) {
  std::vector<std::string> axes;
  for (const auto &[name, size] : least.plan.mesh().axes)
    axes.push_back(fmt::format("{} {}", name, size));
  const StageMemory &fullest = fullestStage(least.simulation);
  return fmt::format("; the smallest found needs {:.0f} bytes ({}) a device, on {}: {}", std::ceil(fullest.deviceBytes),
                     bytesText(fullest.deviceBytes),
                     axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " x ")),
                     memoryText(least.simulation));
}

/// Returns what a user can do where the plans that were found need too much memory.
static std::string adviceText(bool limitGiven) {
  return limitGiven ? "; give <memory> as much, more ranks, or devices with more memory"
                    : "; take more ranks, or devices with more memory";
}

/// Returns the bytes of tensors for which a device has room under the limit.
static double usableBytes(const MemoryLimit &limit, const DeviceSpec &device) {
  double fixed = deviceBytes(0, device);
  return std::max(0.0, limit.onDevice(device) - fixed) / (deviceBytes(1, device) - fixed);
}

/// Refuses a model whose weights, gradients and optimizer states do not fit even if all ranks share them evenly.
/// Returns nothing where they fit, and where the model's work is not known.
static std::optional<Error> refusalBySize(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                          const PlanSearchOptions &options, const MemoryLimit &limit) {
  auto whole = layouts({1, 1, 1, 1, false, options.constraints.attention != AttentionKernels::Unfused});
  if (!whole || !*whole)
    return std::nullopt;
  double states =
      totalOverChain(**whole, stateBytesOf(**whole, Mesh(), plannedStateBytes(job, options.constraints), {}));
  const int64_t ranks = job.ranks.value_or(cluster.ranks());
  double room = 0;
  for (const Cluster *group : uniformGroups(cluster))
    room += static_cast<double>(cluster.mixed() ? group->ranks() : ranks) * usableBytes(limit, group->device);
  if (states <= room * kRoundingOfSums)
    return std::nullopt;
  const double each = usableBytes(limit, uniformGroups(cluster).front()->device);
  std::string enough =
      cluster.mixed() || each <= 0 ? "more ranks" : fmt::format("at least {:.0f} ranks", std::ceil(states / each));
  return Error{fmt::format("no plan for {} of {} fits into {}: weights, gradients and optimizer states take {} in all, "
                           "and the devices together have room for {}; take {}, or devices with more memory",
                           countText(ranks, "rank"), cluster.name, limitText(limit, cluster), bytesText(states),
                           bytesText(room), enough),
               ExitStatus::Infeasible};
}

/// Returns how much memory the smallest plan that is found needs; "" when none is found. A limit of `tooLittle` bytes
/// is known to be too small. Bisects the least sufficient limit, which is doubled until some plan fits.
static std::string leastMemoryText(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                   const PlanSearchOptions &quick, double tooLittle) {
  std::optional<FoundPlan> least;
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
  return least ? leastText(*least) : "";
}

Result<FoundPlans> plansearch::searchEstimates(const Cluster &cluster, const TrainingJob &job,
                                               const LayoutSource &layouts, const PlanSearchOptions &options) {
  MemoryLimit limit{options.memoryLimitBytes ? static_cast<double>(*options.memoryLimitBytes) : kInfinity};
  const double tooLittle = limit.onDevice(uniformGroups(cluster).front()->device);
  PlanSearchOptions quick = options;
  quick.workBudget = std::min(options.workBudget, kUsualWork) / kQuickShare;
  quick.top = 1;
  if (std::optional<Error> refusal = refusalBySize(cluster, job, layouts, options, limit)) {
    if (options.findLeastMemory && options.memoryLimitBytes) // a user's limit can be raised, a device's memory cannot
      refusal->message += leastMemoryText(cluster, job, layouts, quick, tooLittle);
    return *refusal;
  }
  TreeSearch search(cluster, job, layouts, options, limit);
  auto found = search.run();
  if (found || !options.findLeastMemory)
    return found;
  Error error = found.error();
  if (!search.contradicted()) {
    if (auto smallest = search.smallest(); smallest && error.status == ExitStatus::Infeasible)
      error.message += leastText(*smallest) + adviceText(options.memoryLimitBytes.has_value());
    return error;
  }
  std::vector<std::string> conflict = conflictingPins(options.constraints, [&](const Plan &pins) {
    quick.constraints = pins;
    return static_cast<bool>(TreeSearch(cluster, job, layouts, quick, limit, TreeSearch::Goal::AnyFittingPlan).run());
  });
  for (std::string &pin : conflict)
    pin = pinText(options.constraints, pin);
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
  if (std::string least = forMemory ? leastMemoryText(cluster, job, layouts, quick, tooLittle) : ""; !least.empty())
    error.message += least + adviceText(options.memoryLimitBytes.has_value());
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
