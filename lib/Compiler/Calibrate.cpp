// SPDX-License-Identifier: Apache-2.0
// Calibration of a cluster's prices by measured steps.
#include "kerf/Compiler/Calibrate.h"
#include "kerf/Compiler/JobSettings.h"
#include "kerf/CostModel/StepParts.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf {

namespace {

// A step's seconds are not linear in the prices, so the regression is repeated; the last times with the spread that the
// steps then have, and with weights.
constexpr int kIterations = 4, kWeightedIterations = 3;
constexpr size_t kJob = kWorkKinds;

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

Result<SimulatedPlan> simulated(mlir::MLIRContext &context, const MeasuredRun &run, const Cluster &cluster,
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
  auto plan = simulatePlan(context, run.model, run.plan, run.name, cluster, options);
  if (!plan)
    return Error{fmt::format("{}: {}", run.name, plan.error().message), plan.error().status};
  return plan;
}

PricedMeasurement stepOf(const SimulatedPlan &plan) {
  PricedMeasurement result;
  result.seconds = plan.simulation.stepSeconds;
  const Uncertainty &its = *plan.simulation.uncertainty;
  std::copy(its.changes.begin(), its.changes.end(), result.effects.begin());
  result.effects[kJob] = kSpreadOfJob;
  return result;
}

Result<PricedMeasurement> predict(mlir::MLIRContext &context, const MeasuredRun &run, const Cluster &cluster,
                                  const Trainer &trainer) {
  auto plan = simulated(context, run, cluster, trainer);
  if (!plan)
    return plan.error();
  return stepOf(*plan);
}

/// Profiles have the seconds of kernels without the gaps between them.
Cluster withoutGaps(Cluster cluster) {
  cluster.device.curves.launchSeconds = 0;
  for (Cluster &group : cluster.groups)
    group = withoutGaps(std::move(group));
  return cluster;
}

/// Appends a residual for each kind of kernels of a run's profile. Fails if the plan is predicted to have other kinds
/// of kernels than the profile.
Status addKernels(std::vector<Residual> &residuals, const MeasuredRun &run, const SimulatedPlan &plan,
                  const ByPrice &spreads) {
  auto pipeline = pipelineOf(plan.plan, withoutGaps(plan.cluster));
  if (!pipeline)
    return pipeline.error();
  ByWorkKind predicted = kernelSecondsOf(plan.work, plan.step, *pipeline, run.profileStage);
  for (const auto &[kind, profiled] : {std::pair(WorkKind::Products, ProfiledKernel::Product),
                                       std::pair(WorkKind::Attention, ProfiledKernel::Attention),
                                       std::pair(WorkKind::Memory, ProfiledKernel::Memory)}) {
    double measured = run.profile->of(profiled) / static_cast<double>(run.profile->steps);
    auto k = static_cast<size_t>(kind);
    if (measured == 0 && predicted[k] == 0)
      continue;
    if (measured == 0 || predicted[k] == 0)
      return Error{
          fmt::format("{}: its profile has {:.4g} s of {} a step, but its plan is predicted to have {:.4g} s; {}",
                      run.name, measured, toString(kind), predicted[k],
                      kind == WorkKind::Attention ? "give the column 'attention' as the run had it: fused or unfused"
                                                  : "give the profile of a training step of this run")};
    Residual one;
    one.effects[k] = spreads[k];
    one.effects[kJob] = kSpreadOfJob;
    one.logRatio = std::log(measured / predicted[k]);
    one.isStep = false;
    residuals.push_back(one);
  }
  return ok();
}

double product(const ByPrice &left, const std::array<ByPrice, kPrices> &matrix, const ByPrice &right) {
  double sum = 0;
  for (size_t i = 0; i < kPrices; ++i)
    for (size_t j = 0; j < kPrices; ++j)
      sum += left[i] * matrix[i][j] * right[j];
  return sum;
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

/// Appends the residuals of products, which were benchmarked at the clock of a short benchmark.
static void addProducts(std::vector<Residual> &residuals, const std::vector<MeasuredProduct> &products, Cluster cluster,
                        const ByPrice &spreads) {
  if (products.empty())
    return;
  cluster.device.curves.sustained = 1;
  std::array<std::array<DeviceSpec, 2>, kWorkKinds> scaled;
  for (size_t k = 0; k < kWorkKinds; ++k)
    for (int up : {0, 1})
      scaled[k][up] = withScaledWork(cluster, static_cast<WorkKind>(k), std::exp((up ? 1 : -1) * spreads[k])).device;
  for (const MeasuredProduct &one : products) {
    Residual residual;
    for (size_t k = 0; k < kWorkKinds; ++k)
      residual.effects[k] =
          std::log(computeSeconds(scaled[k][1], one.work) / computeSeconds(scaled[k][0], one.work)) / 2;
    residual.effects[kJob] = kSpreadOfJob;
    residual.logRatio = std::log(one.seconds / computeSeconds(cluster.device, one.work));
    residual.weight = one.weight;
    residual.isStep = false;
    residuals.push_back(residual);
  }
}

/// Predicts all measurements on `cluster`. Without `steps`, the times of steps are left out.
static Result<std::vector<Residual>> residualsOf(mlir::MLIRContext &context, const Cluster &cluster,
                                                 const Trainer &trainer, const Measurements &measurements, bool steps,
                                                 const ByPrice &spreads) {
  std::vector<Residual> residuals;
  for (const MeasuredRun &run : measurements.runs) {
    bool timed = steps && run.seconds > 0;
    if (!timed && !run.profile)
      continue;
    auto plan = simulated(context, run, cluster, trainer);
    if (!plan)
      return plan.error();
    PricedMeasurement step = stepOf(*plan);
    if (timed)
      residuals.push_back({step.effects, std::log(run.seconds / step.seconds)});
    if (run.profile)
      if (Status added = addKernels(residuals, run, *plan, spreads); !added)
        return added.error();
  }
  for (const MeasuredCollective &one : measurements.collectives) {
    auto part = firstRanks(cluster, one.ranks);
    if (!part)
      return Error{fmt::format("{}: {}", one.name, part.error().message), part.error().status};
    if (part->mixed())
      return Error{fmt::format("{}: its {} ranks lie in several groups of {}; benchmark one group, and give the "
                               "cluster file of this group",
                               one.name, one.ranks, cluster.name)};
    PricedMeasurement predicted = predict(one, *part, spreads);
    residuals.push_back({predicted.effects, std::log(one.seconds / predicted.seconds), one.weight, false});
  }
  if (!measurements.products.empty() && cluster.mixed())
    return Error{fmt::format("{}: {} has several kinds of devices; give the cluster file of one group",
                             measurements.products.front().name, cluster.name)};
  addProducts(residuals, measurements.products, cluster, spreads);
  return residuals;
}

Result<Calibration> calibrate(mlir::MLIRContext &context, const Cluster &cluster, const Trainer &trainer,
                              const Measurements &measurements) {
  const std::vector<MeasuredRun> &runs = measurements.runs;
  std::vector<const MeasuredRun *> measured;
  for (const MeasuredRun &run : runs)
    if (run.seconds > 0)
      measured.push_back(&run);
  bool profiled = std::ranges::any_of(runs, [](const MeasuredRun &run) { return run.profile.has_value(); });
  if (measured.empty() && !profiled && measurements.collectives.empty() && measurements.products.empty())
    return Error{"no run has a measured time; give iter_time_s, tokens_s_total, tokens_s_gpu or samples_s for one or "
                 "more of them, a profile, or the output of benchmarks (<nccl>, <products>)"};
  Calibration result;
  const ByPrice spreads = usualSpreads();
  result.spreadsBefore = spreads;
  auto first = residualsOf(context, cluster, trainer, measurements, /*steps=*/true, spreads);
  if (!first)
    return first.error();
  const ByPrice least = leastFactors(cluster, spreads);
  result.evidence = leaveOneOut(*first, least);
  const bool steps = result.evidence.scale > 0;
  const double scale = steps ? result.evidence.scale : 1;
  ByPrice at = {};
  Posterior posterior;
  double spread = kSpreadOfPlan; // of steps around their predictions
  for (int iteration = 0; iteration < kIterations + kWeightedIterations; ++iteration) {
    auto residuals = residualsOf(context, withFactors(cluster, at, spreads), trainer, measurements, steps, spreads);
    if (!residuals)
      return residuals.error();
    if (iteration == kIterations)
      spread = spreadOfSteps(*residuals);
    if (iteration >= kIterations)
      reweight(*residuals, spread);
    posterior = posteriorOf(*residuals, at, scale, least);
    at = posterior.mean;
  }
  result.cluster = withFactors(cluster, at, spreads);
  limitShares(result.cluster); // predictions below are those that the written file gives
  for (size_t k = 0; k < kPrices; ++k) {
    result.factors[k] = std::exp(at[k] * spreads[k]);
    result.spreadsAfter[k] = spreads[k] * std::sqrt(posterior.covariance[k][k]);
  }
  result.cluster.source["calibration"] =
      fmt::format("kerf calibrate for {}: prices adjusted to {}, {} and {}", trainer.name,
                  countText(steps ? static_cast<int64_t>(measured.size()) : 0, "measured step"),
                  countText(static_cast<int64_t>(measurements.collectives.size()), "collective"),
                  countText(static_cast<int64_t>(measurements.products.size()), "product"));
  std::vector<Candidate> candidates;
  const double unmeasured = trainer.prices.unmeasured ? kSpreadOfTrainer * kSpreadOfTrainer : 0;
  const double others = result.evidence.steps >= 2 && steps ? spreadOfOthers(*first, scale, least) : 0;
  for (const MeasuredRun &run : runs) {
    auto before = predict(context, run, cluster, trainer), after = predict(context, run, result.cluster, trainer);
    if (!before || !after)
      return before ? after.error() : before.error();
    double old = kSpreadOfPlan * kSpreadOfPlan + unmeasured,
           now = spread * spread + product(after->effects, posterior.covariance, after->effects);
    for (double effect : before->effects)
      old += effect * effect;
    now = std::max(now + (measured.empty() ? unmeasured : 0), others * others);
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

} // namespace kerf
