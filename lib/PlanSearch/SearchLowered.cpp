// SPDX-License-Identifier: Apache-2.0
#include "SearchLowered.h"
#include "Tuning.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>

namespace kerf::plansearch {

namespace {

/// The programs of the plans that some rounds found.
class Lowering {
public:
  Lowering(const Cluster &cluster, const TrainingJob &job, double limit) : cluster(cluster), job(job), limit(limit) {}

  /// Lowers those that are new. The least share of a plan's bytes that its estimate was: 1 where all fit.
  void add(std::vector<FoundPlan> found) {
    leastShare = 1;
    for (FoundPlan &one : found) {
      one.plan.predicted.reset();
      if (!seen.insert(toJson(one.plan)).second)
        continue;
      double estimate = mostBytes(one.simulation);
      if (Status status = job.asLowered(one.plan, cluster, one.simulation); !status) {
        refusal = status.error();
        continue;
      }
      double bytes = mostBytes(one.simulation);
      least = std::min(least, bytes);
      one.simulation.fits = bytes <= limit;
      if (one.simulation.fits)
        fitting.push_back(std::move(one));
      else
        leastShare = std::min(leastShare, estimate / bytes);
    }
  }

  std::vector<FoundPlan> fitting;
  double leastShare = 1;
  double least = std::numeric_limits<double>::infinity(); // bytes that some program needs
  std::optional<Error> refusal;

private:
  const Cluster &cluster;
  const TrainingJob &job;
  double limit;
  std::set<std::string> seen;
};

} // namespace

Result<FoundPlans> searchLowered(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                 const PlanSearchOptions &options) {
  auto limit = static_cast<double>(cluster.device.memoryBytes);
  if (options.memoryLimitBytes)
    limit = std::min(limit, static_cast<double>(*options.memoryLimitBytes));
  PlanSearchOptions estimated = options;
  estimated.top = std::max(options.top, kLeastLowered);
  estimated.leastMemory = false;
  Lowering lowering(cluster, job, limit);
  FoundPlans found;
  std::optional<Error> error;
  double allowed = limit;
  int looser = 0;
  for (int round = 0; round < kRounds && lowering.fitting.empty() && allowed >= 1; ++round) {
    Cluster resized = cluster; // by estimates a device may have more than it has
    resized.device.memoryBytes = static_cast<int64_t>(std::min(allowed, 9e18));
    estimated.memoryLimitBytes.reset();
    auto plans = searchEstimates(resized, job, layouts, estimated);
    if (!plans) {
      error = plans.error();
      if (error->status != ExitStatus::Infeasible || looser == kLooserRounds || !std::isinf(lowering.least))
        break;
      ++looser;
      allowed *= kLooser;
      continue;
    }
    found.statistics.choices += plans->statistics.choices;
    found.statistics.simulated += plans->statistics.simulated;
    found.statistics.layouts = std::max(found.statistics.layouts, plans->statistics.layouts);
    found.outside = std::move(plans->outside);
    lowering.add(std::move(plans->plans));
    allowed *= kTighter * lowering.leastShare;
  }
  if (lowering.fitting.empty()) {
    if (std::isinf(lowering.least) && lowering.refusal)
      return *lowering.refusal;
    if (!std::isinf(lowering.least))
      return Error{fmt::format("no plan for {} ranks of {} fits into {:.0f} bytes a device: the smallest found needs "
                               "{:.0f} bytes: take more ranks or devices of more memory{}",
                               cluster.ranks(), cluster.name, limit, lowering.least,
                               options.memoryLimitBytes ? ", or give <memory> as much" : ""),
                   ExitStatus::Infeasible};
    return options.leastMemory ? searchEstimates(cluster, job, layouts, options) : Result<FoundPlans>(*error);
  }
  // Where messages are dear, one rank is as good as several that all do the same.
  if (auto alone = firstRanks(cluster, 1); alone && cluster.ranks() > 1 && !options.allRanks)
    if (auto plans = searchEstimates(*alone, job, layouts, estimated))
      lowering.add(std::move(plans->plans));
  std::stable_sort(lowering.fitting.begin(), lowering.fitting.end(), [](const FoundPlan &a, const FoundPlan &b) {
    return std::pair(a.simulation.stepSeconds, a.plan.mesh().ranks()) <
           std::pair(b.simulation.stepSeconds, b.plan.mesh().ranks());
  });
  if (lowering.fitting.size() > static_cast<size_t>(std::max(1, options.top)))
    lowering.fitting.resize(std::max(1, options.top));
  for (FoundPlan &one : lowering.fitting)
    one.plan.predicted = predictionOf(one.simulation, 0);
  found.plans = std::move(lowering.fitting);
  return found;
}

} // namespace kerf::plansearch
