// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/Pareto.h"
#include "Tuning.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf {

namespace {

bool beats(const ParetoPlan &a, const ParetoPlan &b) {
  double seconds = a.plan.simulation.stepSeconds, others = b.plan.simulation.stepSeconds;
  return seconds <= others && a.ranks <= b.ranks && a.deviceBytes <= b.deviceBytes &&
         (seconds < others || a.ranks < b.ranks || a.deviceBytes < b.deviceBytes);
}

} // namespace

std::vector<ParetoPlan> paretoPlans(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                    const PlanSearchOptions &options, const FoundPlan &best,
                                    const std::function<void(const std::string &)> &onSearchBegin) {
  PlanSearchOptions each = options;
  each.top = 1;
  each.workBudget /= plansearch::kShareOfBudget;
  each.findLeastMemory = false;
  std::vector<ParetoPlan> all;
  auto add = [&](FoundPlan plan) {
    double bytes = 0;
    for (const StageMemory &stage : plan.simulation.memory)
      bytes = std::max(bytes, stage.deviceBytes);
    all.push_back({plan.plan.mesh().ranks(), bytes, std::move(plan)});
  };
  auto search = [&](const Cluster &part, const std::string &what) {
    if (options.stop && options.stop())
      return false;
    if (onSearchBegin)
      onSearchBegin(what);
    auto found = searchPlans(part, job, layouts, each);
    if (found)
      add(std::move(found->plans.front()));
    return static_cast<bool>(found);
  };
  add(best);
  double most = all.front().deviceBytes;
  for (int64_t half = 1; half <= plansearch::kFewestShare; half *= 2)
    for (int64_t quarters : {int64_t{4}, int64_t{3}}) {
      int64_t ranks = cluster.ranks() * quarters / (4 * half);
      if (ranks < 1 || ranks == cluster.ranks() || 4 * half > plansearch::kFewestShare * quarters)
        continue;
      if (auto part = firstRanks(cluster, ranks))
        search(*part, fmt::format("{} ranks", ranks));
    }
  for (int eighths = plansearch::kMemorySteps - 1; eighths >= 1; --eighths) {
    each.memoryLimitBytes = static_cast<int64_t>(most * eighths / plansearch::kMemorySteps);
    if (!search(cluster, fmt::format("{} bytes of memory", *each.memoryLimitBytes)))
      break;
  }
  std::vector<ParetoPlan> kept;
  for (ParetoPlan &plan : all)
    if (std::none_of(all.begin(), all.end(), [&](const ParetoPlan &other) { return beats(other, plan); }) &&
        std::none_of(kept.begin(), kept.end(), [&](const ParetoPlan &other) {
          return other.ranks == plan.ranks && other.deviceBytes == plan.deviceBytes;
        }))
      kept.push_back(plan);
  std::stable_sort(kept.begin(), kept.end(), [](const ParetoPlan &a, const ParetoPlan &b) {
    return a.plan.simulation.stepSeconds < b.plan.simulation.stepSeconds;
  });
  return kept;
}

} // namespace kerf
