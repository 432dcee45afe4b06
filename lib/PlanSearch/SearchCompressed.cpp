// SPDX-License-Identifier: Apache-2.0
#include "SearchCompressed.h"
#include "SearchLowered.h"
#include "Tuning.h"
#include "kerf/PlanSearch/CompressPlan.h"
#include "kerf/PlanSearch/Explain.h"

#include <algorithm>
#include <set>

namespace kerf::plansearch {

namespace {

constexpr int64_t kTypicalShape[] = {1024, 1024}; // a matrix whose compression ratio stands for that of a model

/// Returns the largest ratio that the request allows.
double largestRatio(const CompressionRequest &request) {
  std::vector<const compression::CodecRecord *> codecs = request.limits.codecs;
  if (request.always)
    codecs = {request.always};
  else if (codecs.empty())
    codecs = compression::usualCodecs();
  double most = 1;
  for (const compression::CodecRecord *codec : codecs) {
    double ratio = compressionRatio(*codec, kTypicalShape);
    if (request.limits.largestRatio <= 0 || ratio <= request.limits.largestRatio)
      most = std::max(most, ratio);
  }
  return most;
}

/// Returns the cluster with an outermost network that is `factor` times as fast.
Cluster withFasterNetwork(Cluster cluster, double factor) {
  if (cluster.mixed()) {
    for (GroupLink &link : cluster.groupLinks) {
      link.bandwidth *= factor;
      link.nodeBandwidth *= factor;
    }
    for (Cluster &group : cluster.groups)
      group = withFasterNetwork(std::move(group), factor);
    return cluster;
  }
  Level &outermost = cluster.levels.back();
  outermost.bandwidth *= factor;
  outermost.nodeBandwidth *= factor;
  outermost.switchBandwidth *= factor;
  return cluster;
}

} // namespace

Result<FoundPlans> searchCompressed(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                                    const PlanSearchOptions &options) {
  const std::vector<CompressionPin> &pins = options.constraints.compression;
  PlanSearchOptions plain = options;
  plain.compression.reset();
  plain.constraints.compression.clear();
  if (plain.startingPlan)
    plain.startingPlan->compression.clear();
  plain.top = std::max(options.top, kCompressedFinalists);
  if (options.compression)
    plain.workBudget /= kCompressedShare;
  auto found = searchUncompressed(cluster, job, layouts, plain);
  if (!found)
    return found;
  if (double ratio = options.compression ? largestRatio(*options.compression) : 1; ratio > 1) {
    if (auto more = searchUncompressed(withFasterNetwork(cluster, ratio), job, layouts, plain)) {
      found->statistics.choices += more->statistics.choices;
      found->statistics.simulated += more->statistics.simulated;
      for (FoundPlan &one : more->plans)
        if (auto real = simulatePlan(one.plan, cluster, job, layouts); real && real->simulation.fits)
          found->plans.push_back(std::move(*real));
    }
  }
  CompressionRequest request = options.compression.value_or(CompressionRequest());
  if (!options.compression)
    request.limits.largestRatio = 1; // pins alone: nothing else is compressed
  std::vector<FoundPlan> compressed;
  std::set<std::string> seen;
  std::optional<Error> refusal;
  for (FoundPlan &one : found->plans) {
    one.plan.predicted.reset();
    if (!seen.insert(toJson(one.plan)).second)
      continue;
    auto its = compressPlan(one, pins, cluster, job, layouts, request);
    if (!its) {
      refusal = its.error();
      continue;
    }
    if (its->simulation.fits)
      compressed.push_back(std::move(*its));
  }
  if (compressed.empty())
    return refusal ? *refusal
                   : Error{"no plan with this compression fits into memory; choose codecs without error feedback",
                           ExitStatus::Infeasible};
  std::stable_sort(compressed.begin(), compressed.end(), [](const FoundPlan &a, const FoundPlan &b) {
    return std::pair(a.simulation.stepSeconds, a.plan.mesh().ranks()) <
           std::pair(b.simulation.stepSeconds, b.plan.mesh().ranks());
  });
  if (compressed.size() > static_cast<size_t>(std::max(1, options.top)))
    compressed.resize(std::max(1, options.top));
  for (FoundPlan &one : compressed)
    one.plan.predicted = predictionOf(one.simulation, 0);
  found->plans = std::move(compressed);
  found->lowerBoundSeconds = 0;
  found->compressionPlanned = true;
  return found;
}

} // namespace kerf::plansearch
