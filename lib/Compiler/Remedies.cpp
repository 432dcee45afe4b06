// SPDX-License-Identifier: Apache-2.0
#include "Tuning.h"
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/Compiler/PlanTraining.h"

namespace kerf {

namespace {

/// Returns whether a short search finds any plan that fits into memory.
bool somePlanFits(PlanRequest request) {
  request.step.precision = defaultPrecision(request.dtype);
  auto context = createContext();
  auto job = makeWholePlanJob(*context, request);
  if (!job)
    return false;
  bool fits = false;
  job->search.findLeastMemory = false;
  job->search.seconds = kRemedySeconds;
  job->search.progress = [&](double best, double) { fits |= best > 0; };
  auto stop = job->search.stop;
  job->search.stop = [&] { return fits || (stop && stop()); };
  return static_cast<bool>(searchPlans(job->cluster, job->job, job->layouts, job->search));
}

/// Returns a cluster of `ranks` ranks with the same devices: the first ranks of `whole`, or `whole` with more units at
/// its outermost level. Returns nothing for a mixed cluster that is too small, as it is unclear which group would grow.
std::optional<Cluster> ofRanks(const Cluster &whole, int64_t ranks) {
  if (ranks <= whole.ranks()) {
    auto first = firstRanks(whole, ranks);
    return first ? std::optional(std::move(*first)) : std::nullopt;
  }
  if (whole.mixed() || whole.levels.empty())
    return std::nullopt;
  Cluster grown = whole;
  Level &outermost = grown.levels.back();
  int64_t each = whole.devicesPerUnit(whole.levels.size() - 1) / outermost.size;
  outermost.size = (ranks + each - 1) / each;
  grown.usedRanks = ranks;
  return grown;
}

/// Returns the least power-of-two multiple of the ranks on which some plan fits, or nothing up to kMaxRankFactor.
std::optional<int64_t> enoughRanks(const PlanRequest &request, const Cluster &whole) {
  for (int64_t times = 2; times <= kMaxRankFactor; times *= 2) {
    int64_t ranks = times * request.cluster.ranks();
    auto more = ofRanks(whole, ranks);
    if (!more)
      return std::nullopt;
    PlanRequest other = request;
    other.cluster = std::move(*more);
    if (somePlanFits(std::move(other)))
      return ranks;
  }
  return std::nullopt;
}

} // namespace

Remedies findRemedies(const PlanRequest &request, const Cluster &whole) {
  Remedies found;
  found.ranks = enoughRanks(request, whole);
  PlanRequest other = request;
  other.step.optimizer.optimizer = "sgd";
  other.step.optimizer.settings.erase("momentum");
  if (request.step.optimizer.optimizer != "sgd" && somePlanFits(other))
    found.optimizer = other.step.optimizer.optimizer;
  other = request;
  other.dtype = "bf16";
  if (request.dtype == "f32" && request.cluster.device.kind != "cpu" && somePlanFits(other))
    found.dtype = other.dtype;
  return found;
}

} // namespace kerf
