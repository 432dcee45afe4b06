// SPDX-License-Identifier: Apache-2.0
// Calibration of a cluster's prices by measured steps.
#include "kerf/Compiler/Calibrate.h"
#include "kerf/Compiler/JobSettings.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;

// A step's seconds are not linear in the prices, so the regression is repeated; the last times with the spread that the
// runs then have, and with the weights of a t distribution.
constexpr int kIterations = 4, kWeightedIterations = 3;
// Degrees of freedom of the t distribution that measurements have around their predictions: a run that is far from all
// others says little.
constexpr double kDegreesOfFreedom = 4;
constexpr double kDeviationOfMedian = 1.4826; // standard deviation of a normal distribution by its median deviation
constexpr size_t kJob = kWorkKinds;

/// The keys of the prices in JSON.
constexpr const char *kPriceKeys[] = {"products",     "attention",     "memory", "host",
                                      "links_inside", "links_between", "all"};

/// Returns the spreads of the prices before a calibration.
ByPrice usualSpreads() {
  ByPrice spreads;
  std::copy(spreadOfKinds().begin(), spreadOfKinds().end(), spreads.begin());
  spreads[kJob] = kSpreadOfJob;
  return spreads;
}

/// Returns the cluster with the seconds of each kind of work multiplied by e^(spread times `factors`).
Cluster withFactors(Cluster cluster, const ByPrice &factors, const ByPrice &spreads) {
  for (size_t k = 0; k < kWorkKinds; ++k)
    cluster = withScaledWork(std::move(cluster), static_cast<WorkKind>(k),
                             std::exp(factors[k] * spreads[k] + factors[kJob] * spreads[kJob]));
  return cluster;
}

/// Keeps shares of peak rates at most 1, as cluster files require.
void limitShares(Cluster &cluster) {
  DeviceCurves &curves = cluster.device.curves;
  for (double *share :
       {&curves.productEfficiency, &curves.attentionEfficiency, &curves.vendorAttention, &curves.memoryEfficiency,
        &curves.productMemory, &curves.reductionMemory, &curves.gatherMemory, &curves.movementMemory})
    *share = std::min(*share, 1.0);
  for (Cluster &group : cluster.groups)
    limitShares(group);
}

struct PricedMeasurement {
  double seconds = 0;
  ByPrice effects = {};
};

Result<PricedMeasurement> predict(mlir::MLIRContext &context, const MeasuredRun &run, const Cluster &cluster,
                                  const Trainer &trainer) {
  ModelSettings settings;
  settings.optimizer = run.optimizer;
  settings.dtype = run.dtype;
  settings.sequence = run.sequence;
  settings.globalBatch = run.plan.globalBatch;
  SimulateOptions options;
  options.step = settings.toStepOptions();
  options.dtype = run.dtype;
  options.trainer = &trainer;
  if (run.ranks)
    options.ranks = run.ranks;
  auto simulated = simulatePlan(context, run.model, run.plan, run.name, cluster, options);
  if (!simulated)
    return Error{fmt::format("{}: {}", run.name, simulated.error().message), simulated.error().status};
  PricedMeasurement result;
  result.seconds = simulated->simulation.stepSeconds;
  const Uncertainty &its = *simulated->simulation.uncertainty;
  std::copy(its.changes.begin(), its.changes.end(), result.effects.begin());
  result.effects[kJob] = kSpreadOfJob;
  return result;
}

double product(const ByPrice &left, const std::array<ByPrice, kPrices> &matrix, const ByPrice &right) {
  double sum = 0;
  for (size_t i = 0; i < kPrices; ++i)
    for (size_t j = 0; j < kPrices; ++j)
      sum += left[i] * matrix[i][j] * right[j];
  return sum;
}

/// Returns the inverse of a symmetric, positive definite matrix (Gauss and Jordan).
std::array<ByPrice, kPrices> inverseOf(std::array<ByPrice, kPrices> matrix) {
  std::array<ByPrice, kPrices> inverse = {};
  for (size_t i = 0; i < kPrices; ++i)
    inverse[i][i] = 1;
  for (size_t i = 0; i < kPrices; ++i) {
    double pivot = matrix[i][i];
    for (size_t j = 0; j < kPrices; ++j) {
      matrix[i][j] /= pivot;
      inverse[i][j] /= pivot;
    }
    for (size_t r = 0; r < kPrices; ++r) {
      if (r == i)
        continue;
      double times = matrix[r][i];
      for (size_t j = 0; j < kPrices; ++j) {
        matrix[r][j] -= times * matrix[i][j];
        inverse[r][j] -= times * inverse[i][j];
      }
    }
  }
  return inverse;
}

/// Returns the spread of runs around their predictions, at least the usual one.
double spreadOfRuns(const std::vector<Residual> &residuals) {
  std::vector<double> sizes;
  for (const Residual &one : residuals)
    if (one.weight == 1)
      sizes.push_back(std::abs(one.logRatio));
  if (sizes.size() < 3)
    return kSpreadOfPlan;
  std::sort(sizes.begin(), sizes.end());
  double median = (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
  return std::max(kSpreadOfPlan, kDeviationOfMedian * median);
}

/// Gives the measurements the weights of a t distribution with `spread` (iteratively reweighted least squares).
void reweight(std::vector<Residual> &residuals, double spread) {
  for (Residual &one : residuals) {
    double distance = one.logRatio / spread, scale = kSpreadOfPlan / spread;
    one.weight *= scale * scale * (kDegreesOfFreedom + 1) / (kDegreesOfFreedom + distance * distance);
  }
}

Interval around(double median, double spread) {
  double factor = std::exp(kEightyPercent * spread);
  return {median / factor, median * factor};
}

/// Returns plans that differ from `run` in one decision, for the same number of ranks, as runs that could be measured.
std::vector<MeasuredRun> variants(const MeasuredRun &run) {
  std::vector<MeasuredRun> list;
  auto add = [&](const std::string &what, auto change) {
    MeasuredRun other = run;
    other.seconds = 0;
    other.name = fmt::format("{} with {}", run.name, what);
    if (change(other.plan))
      list.push_back(std::move(other));
  };
  for (const char *axis : {"model", "stage"})
    for (bool more : {true, false})
      add(fmt::format("{} the {} axis", more ? "twice" : "half", axis), [&](Plan &plan) {
        int64_t &size = plan.meshSizes[axis], &data = plan.meshSizes["data"];
        int64_t &from = more ? data : size, &to = more ? size : data;
        size = std::max<int64_t>(size, 1);
        data = std::max<int64_t>(data, 1);
        if (from % 2 != 0 || !plan.stages.empty())
          return false;
        from /= 2;
        to *= 2;
        plan.recompute.resize(std::min<size_t>(plan.recompute.size(), 1));
        return true;
      });
  for (bool more : {true, false})
    add(more ? "twice the microbatch" : "half the microbatch", [&](Plan &plan) {
      if (plan.microbatch == 0 || (!more && plan.microbatch % 2 != 0))
        return false;
      plan.microbatch = more ? 2 * plan.microbatch : plan.microbatch / 2;
      return true;
    });
  return list;
}

struct Candidate {
  MeasuredRun run;
  ByPrice effects;
};

} // namespace

Posterior posteriorOf(const std::vector<Residual> &measurements, const ByPrice &at) {
  std::array<ByPrice, kPrices> precision = {};
  ByPrice right = {};
  for (size_t k = 0; k < kPrices; ++k)
    precision[k][k] = 1; // the distribution before the measurements, in units of the spreads
  for (const Residual &one : measurements) {
    const double weight = one.weight / (kSpreadOfPlan * kSpreadOfPlan);
    double target = one.logRatio;
    for (size_t k = 0; k < kPrices; ++k)
      target += one.effects[k] * at[k];
    for (size_t k = 0; k < kPrices; ++k) {
      right[k] += weight * one.effects[k] * target;
      for (size_t j = 0; j < kPrices; ++j)
        precision[k][j] += weight * one.effects[k] * one.effects[j];
    }
  }
  Posterior posterior;
  posterior.covariance = inverseOf(precision);
  for (size_t k = 0; k < kPrices; ++k)
    for (size_t j = 0; j < kPrices; ++j)
      posterior.mean[k] += posterior.covariance[k][j] * right[j];
  return posterior;
}

/// Sets `next`: the unmeasured run, or the variant of a measured one, that leaves the least spread in the predictions
/// of all unmeasured runs (of the variants, if every run is measured).
static void chooseNext(Calibration &result, const Posterior &posterior, const std::vector<Candidate> &candidates) {
  if (candidates.empty())
    return;
  auto variance = [&](const ByPrice &x) { return product(x, posterior.covariance, x); };
  double now = 0, least = std::numeric_limits<double>::infinity();
  for (const Candidate &target : candidates)
    now += variance(target.effects);
  for (const Candidate &one : candidates) {
    double noise = variance(one.effects) + kSpreadOfPlan * kSpreadOfPlan, left = 0;
    for (const Candidate &target : candidates) {
      double shared = product(target.effects, posterior.covariance, one.effects);
      left += variance(target.effects) - shared * shared / noise;
    }
    if (left < least) {
      least = left;
      result.next = one.run;
    }
  }
  auto number = static_cast<double>(candidates.size());
  result.spreadNow = std::sqrt(now / number);
  result.spreadWithNext = std::sqrt(least / number);
}

/// Returns the prediction of a collective on the first ranks of `cluster`, which must not be mixed.
static PricedMeasurement predict(const MeasuredCollective &one, const Cluster &cluster, const ByPrice &spreads) {
  const Mesh mesh{{{"data", one.ranks}}};
  const std::vector<AxisRef> axes = {AxisRef{0, 1, one.ranks}};
  auto seconds = [&](const Cluster &on) { return CollectiveModel(mesh, on).seconds(one.kind, axes, one.bytes); };
  PricedMeasurement result;
  result.seconds = seconds(cluster);
  for (size_t k = 0; k < kWorkKinds; ++k) {
    auto scaled = [&](double by) { return seconds(withScaledWork(cluster, static_cast<WorkKind>(k), std::exp(by))); };
    result.effects[k] = std::log(scaled(spreads[k]) / scaled(-spreads[k])) / 2;
  }
  result.effects[kJob] = kSpreadOfJob;
  return result;
}

/// Predicts all measurements on `cluster`, whose factors are `at`.
static Result<std::vector<Residual>> residualsOf(mlir::MLIRContext &context, const Cluster &cluster,
                                                 const Trainer &trainer, const std::vector<const MeasuredRun *> &runs,
                                                 const std::vector<MeasuredCollective> &collectives,
                                                 const ByPrice &spreads) {
  std::vector<Residual> residuals;
  for (const MeasuredRun *run : runs) {
    auto predicted = predict(context, *run, cluster, trainer);
    if (!predicted)
      return predicted.error();
    residuals.push_back({predicted->effects, std::log(run->seconds / predicted->seconds)});
  }
  for (const MeasuredCollective &one : collectives) {
    auto part = firstRanks(cluster, one.ranks);
    if (!part)
      return Error{fmt::format("{}: {}", one.name, part.error().message), part.error().status};
    if (part->mixed())
      return Error{fmt::format("{}: its {} ranks lie in several groups of {}; benchmark one group, and give the "
                               "cluster file of this group",
                               one.name, one.ranks, cluster.name)};
    PricedMeasurement predicted = predict(one, *part, spreads);
    residuals.push_back({predicted.effects, std::log(one.seconds / predicted.seconds), one.weight});
  }
  return residuals;
}

Result<Calibration> calibrate(mlir::MLIRContext &context, const Cluster &cluster, const Trainer &trainer,
                              const std::vector<MeasuredRun> &runs,
                              const std::vector<MeasuredCollective> &collectives) {
  std::vector<const MeasuredRun *> measured;
  for (const MeasuredRun &run : runs)
    if (run.seconds > 0)
      measured.push_back(&run);
  if (measured.empty() && collectives.empty())
    return Error{"no run has a measured time; give iter_time_s, tokens_s_total, tokens_s_gpu or samples_s for one or "
                 "more of them, or the output of nccl-tests"};
  Calibration result;
  const ByPrice spreads = usualSpreads();
  result.spreadsBefore = spreads;
  ByPrice at = {};
  Posterior posterior;
  double spread = kSpreadOfPlan; // of runs around their predictions
  for (int iteration = 0; iteration < kIterations + kWeightedIterations; ++iteration) {
    auto residuals = residualsOf(context, withFactors(cluster, at, spreads), trainer, measured, collectives, spreads);
    if (!residuals)
      return residuals.error();
    if (iteration == kIterations)
      spread = spreadOfRuns(*residuals);
    if (iteration >= kIterations)
      reweight(*residuals, spread);
    posterior = posteriorOf(*residuals, at);
    at = posterior.mean;
  }
  result.cluster = withFactors(cluster, at, spreads);
  limitShares(result.cluster); // predictions below are those that the written file gives
  for (size_t k = 0; k < kPrices; ++k) {
    result.factors[k] = std::exp(at[k] * spreads[k]);
    result.spreadsAfter[k] = spreads[k] * std::sqrt(posterior.covariance[k][k]);
  }
  result.cluster.source["calibration"] = fmt::format(
      "kerf calibrate for {}: prices adjusted to {} measured step{} and {} collective{}", trainer.name, measured.size(),
      measured.size() == 1 ? "" : "s", collectives.size(), collectives.size() == 1 ? "" : "s");
  std::vector<Candidate> candidates;
  for (const MeasuredRun &run : runs) {
    auto before = predict(context, run, cluster, trainer), after = predict(context, run, result.cluster, trainer);
    if (!before || !after)
      return before ? after.error() : before.error();
    double old = kSpreadOfPlan * kSpreadOfPlan,
           now = spread * spread + product(after->effects, posterior.covariance, after->effects);
    for (double effect : before->effects)
      old += effect * effect;
    result.runs.push_back({run, before->seconds, after->seconds, around(before->seconds, std::sqrt(old)),
                           around(after->seconds, std::sqrt(now)), after->effects});
    if (run.seconds == 0)
      candidates.push_back({run, after->effects});
  }
  if (candidates.empty())
    for (const MeasuredRun *run : measured)
      for (MeasuredRun &variant : variants(*run))
        if (auto predicted = predict(context, variant, result.cluster, trainer)) // a variant may not suit the model
          candidates.push_back({std::move(variant), predicted->effects});
  chooseNext(result, posterior, candidates);
  return result;
}

std::string toText(const Calibration &calibration, const std::string &trainer) {
  size_t measured = std::ranges::count_if(calibration.runs, [](const auto &one) { return one.run.seconds > 0; });
  std::string text = fmt::format("{} calibrated for {} by {} measured step{}\n", calibration.cluster.name, trainer,
                                 measured, measured == 1 ? "" : "s");
  text += fmt::format("  {:<24} {:>10}  {:<32}  {}\n", "run", "measured", "before, in 80 % of cases", "after");
  auto range = [](double seconds, const Interval &interval) {
    return fmt::format("{:.4g} s ({:.4g} to {:.4g})", seconds, interval.low, interval.high);
  };
  for (const CalibratedRun &one : calibration.runs)
    text += fmt::format("  {:<24} {:>10}  {:<32}  {}\n", one.run.name,
                        one.run.seconds > 0 ? fmt::format("{:.4g} s", one.run.seconds) : "-",
                        range(one.before, one.intervalBefore), range(one.after, one.intervalAfter));
  text += fmt::format("  {:<24} {:>10}  {}\n", "price", "factor", "spread before and after");
  for (size_t k = 0; k < kPrices; ++k)
    text += fmt::format("  {:<24} {:>10.3f}  {:.3f} {:.3f}\n",
                        k < kWorkKinds ? std::string(toString(static_cast<WorkKind>(k))) : "all work",
                        calibration.factors[k], calibration.spreadsBefore[k], calibration.spreadsAfter[k]);
  if (calibration.next)
    text += fmt::format("  next         {}: it would reduce the spread of predictions from {:.1f} to {:.1f} %\n",
                        calibration.next->name, 100 * calibration.spreadNow, 100 * calibration.spreadWithNext);
  return text;
}

Json toJson(const Calibration &calibration) {
  Json root, runs = Json::array(), prices = Json::object();
  auto pair = [](const Interval &interval) { return Json{interval.low, interval.high}; };
  for (const CalibratedRun &one : calibration.runs)
    runs.push_back({{"run", one.run.name},
                    {"measured_seconds", one.run.seconds > 0 ? Json(one.run.seconds) : Json()},
                    {"before", one.before},
                    {"interval_before", pair(one.intervalBefore)},
                    {"after", one.after},
                    {"interval_after", pair(one.intervalAfter)}});
  for (size_t k = 0; k < kPrices; ++k)
    prices[kPriceKeys[k]] = {{"factor", calibration.factors[k]},
                             {"spread_before", calibration.spreadsBefore[k]},
                             {"spread_after", calibration.spreadsAfter[k]}};
  root["runs"] = std::move(runs);
  root["prices"] = std::move(prices);
  if (calibration.next)
    root["next"] = {{"run", calibration.next->name},
                    {"spread_now", calibration.spreadNow},
                    {"spread_with_next", calibration.spreadWithNext},
                    {"plan", Json::parse(toJson(calibration.next->plan))}};
  return root;
}

} // namespace kerf
