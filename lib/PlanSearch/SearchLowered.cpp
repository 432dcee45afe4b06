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

/// Collects the programs of the plans that several rounds found.
class Lowering {
public:
  Lowering(const Cluster &cluster, const TrainingJob &job, double limit) : cluster(cluster), job(job), limit(limit) {}

  /// Lowers the plans that are new. Sets `leastShare`.
  void add(std::vector<FoundPlan> found) {
    leastShare = 1;
    for (FoundPlan &one : found) {
      one.plan.predicted.reset();
      if (!seen.insert(toJson(one.plan)).second)
        continue;
      double estimate = maxDeviceBytes(one.simulation);
      if (Status status = job.refineWithProgram(one.plan, cluster, one.simulation); !status) {
        refusal = status.error();
        continue;
      }
      double bytes = maxDeviceBytes(one.simulation);
      least = std::min(least, bytes);
      one.simulation.fits = bytes <= limit;
      if (one.simulation.fits)
        fitting.push_back(std::move(one));
      else
        leastShare = std::min(leastShare, estimate / bytes);
    }
  }

  std::vector<FoundPlan> fitting;
  /// Least ratio of estimated bytes to the program's bytes, over the last plans whose programs do not fit; 1: all fit.
  double leastShare = 1;
  double least = std::numeric_limits<double>::infinity(); // least bytes that a program needs
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
  estimated.findLeastMemory = false;
  Lowering lowering(cluster, job, limit);
  FoundPlans found;
  std::optional<Error> error;
  double allowed = limit;
  int looser = 0;
  for (int round = 0; round < kRounds && lowering.fitting.empty() && allowed >= 1; ++round) {
    Cluster resized = cluster; // estimates may be searched beyond the device's real memory
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
    found.outsideSpace = std::move(plans->outsideSpace);
    lowering.add(std::move(plans->plans));
    allowed *= kTighter * lowering.leastShare;
  }
  if (lowering.fitting.empty()) {
    if (std::isinf(lowering.least) && lowering.refusal)
      return *lowering.refusal;
    if (!std::isinf(lowering.least))
      return Error{fmt::format("no plan for {} ranks of {} fits into {:.0f} bytes a device: the smallest found needs "
                               "{:.0f} bytes; take more ranks or devices with more memory{}",
                               cluster.ranks(), cluster.name, limit, lowering.least,
                               options.memoryLimitBytes ? ", or give <memory> as much" : ""),
                   ExitStatus::Infeasible};
    return options.findLeastMemory ? searchEstimates(cluster, job, layouts, options) : Result<FoundPlans>(*error);
  }
  // Where communication is slow, a single rank may be as fast as several.
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
