// SPDX-License-Identifier: Apache-2.0
// Adjusts the prices of a cluster to a user's own measured steps. The seconds of each kind of work (Uncertainty.h) and
// of all work together get a factor. The logarithms of the factors have the spreads of the intervals before the
// measurements (a normal distribution around 0), and what the measurements say about them after (docs/cost-model.md,
// "Calibration").
#pragma once

#include "kerf/Compiler/KernelProfile.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/CostModel/Uncertainty.h"
#include <array>
#include <optional>

namespace kerf {

/// A training step that was measured, or that could be.
struct MeasuredRun {
  std::string name; // name in reports
  ModelSource model;
  Plan plan;
  std::string dtype = "bf16", optimizer = "adamw";
  int64_t sequence = 0;
  int64_t ranks = 0;                         // 0: as many as the mesh of the plan has
  double seconds = 0;                        // measured seconds of a step; 0: not measured
  std::optional<KernelProfile> profile = {}; // kernels of one rank of pipeline stage `profileStage`
  int64_t profileStage = 0;
};

/// Reads runs from the text of a CSV file with the columns of benchmarks/published/README.md, or with `model` and
/// `plan` (files, relative to `folder`) in their place; `profile` is a file too. `where` names the file in messages,
/// which have the line.
Result<std::vector<MeasuredRun>> parseRuns(std::string_view csv, const std::string &where, const std::string &folder);

/// The seconds of one collective over the first `ranks` ranks of a cluster, as a benchmark measured them.
struct MeasuredCollective {
  std::string name; // name in reports
  Collective kind = Collective::AllReduce;
  int64_t ranks = 0;
  double bytes = 0;   // as CollectiveModel::seconds counts them
  double seconds = 0; // measured
  double weight = 1;  // share of a whole measurement: the rows of one benchmark share their errors
};
/// Reads the output of a program of nccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf).
/// `where` names the file in messages. Fails if the text does not say which collective ran on how many ranks.
Result<std::vector<MeasuredCollective>> parseNcclTests(std::string_view text, const std::string &where);

/// The seconds of one matrix product, as a benchmark measured them.
struct MeasuredProduct {
  std::string name; // name in reports
  Work work;        // with the sizes of the product
  double seconds = 0;
  double weight = 1; // as MeasuredCollective::weight
};
/// Reads a CSV file of products: columns m, n, k, a time or a rate, and perhaps batch and dtype (docs/interface.md).
/// The fastest of several rows of one product counts. `where` names the file in messages.
Result<std::vector<MeasuredProduct>> parseProducts(std::string_view csv, const std::string &where);

/// Everything that was measured.
struct Measurements {
  std::vector<MeasuredRun> runs; // some of them without a measured time
  std::vector<MeasuredCollective> collectives;
  std::vector<MeasuredProduct> products;
};

/// The parameters of a calibration: the kinds of work, and all work together.
inline constexpr size_t kPrices = kWorkKinds + 1;
using ByPrice = std::array<double, kPrices>;

/// The normal distribution of the logarithms of the factors after measurements, in units of their spreads before.
struct Posterior {
  ByPrice mean = {};
  std::array<ByPrice, kPrices> covariance = {};
};
/// A measurement beside its prediction.
struct Residual {
  ByPrice effects = {}; // change of the logarithm of the predicted seconds if each price grows by one spread
  double logRatio = 0;  // logarithm of measured by predicted seconds
  double weight = 1;    // as MeasuredCollective::weight
  bool isStep = true;   // whether it is the time of a step; false: of kernels or collectives
};
/// The smallest possible logarithms of the factors, in units of their spreads: no kernel runs above a device's peak.
ByPrice leastFactors(const Cluster &cluster, const ByPrice &spreads);
/// Returns the distribution of the factors after measurements, which were predicted with the factors `at`: a ridge
/// regression. `scale` multiplies the spreads that the factors have before the measurements. A factor that the
/// measurements would move below `least` stays there, and the others explain what is left.
Posterior posteriorOf(const std::vector<Residual> &measurements, const ByPrice &at, double scale, const ByPrice &least);
/// Returns the spread of measured steps around their predictions, at least the usual one.
double spreadOfSteps(const std::vector<Residual> &residuals);
/// Gives measurements the weights of a t distribution with `spread`: one that is far from all others says little. With
/// fewer than three steps, all keep their weights.
void reweight(std::vector<Residual> &residuals, double spread);

/// How far measured steps let the factors go, and the evidence for it: each step is predicted from the others.
struct LeaveOneOut {
  double scale = 1;             // as in posteriorOf; 0: the steps change no price
  double before = 0, after = 0; // mean error (of logarithms) of a step that was left out, without and with corrections
  int64_t steps = 0;            // number of steps; with fewer than two there is no evidence, and `scale` is 1
};
/// Chooses the smallest of a few scales that no larger one beats, where a larger one has to reduce the errors of more
/// steps than one by a fifth of all errors. `residuals` are predictions with the prices as they are.
LeaveOneOut leaveOneOut(const std::vector<Residual> &residuals, const ByPrice &least);
/// Returns the spread of measured steps around what the other measurements predict for them, with the scale that
/// leaveOneOut chose; at least that of a plan, and that of a plan if there are fewer than three steps.
double spreadOfOthers(const std::vector<Residual> &residuals, double scale, const ByPrice &least);

/// A run before and after a calibration.
struct CalibratedRun {
  MeasuredRun run;
  double before = 0, after = 0; // predicted seconds
  Interval intervalBefore, intervalAfter;
  ByPrice effects = {}; // as Residual::effects
};

/// The result of a calibration.
struct Calibration {
  Cluster cluster;      // with adjusted prices
  LeaveOneOut evidence; // whether the steps change prices
  ByPrice factors = {}; // seconds after by seconds before, for each price
  ByPrice spreadsBefore = {}, spreadsAfter = {};
  std::vector<CalibratedRun> runs;
  std::optional<MeasuredRun> next;          // the run that would tell the most about the others
  double spreadNow = 0, spreadWithNext = 0; // mean spread of the others' predictions, now and with `next` measured
};

/// Calibrates `cluster` by `measurements`. Fails if nothing was measured, or if a run, a collective or a product cannot
/// be predicted.
Result<Calibration> calibrate(mlir::MLIRContext &context, const Cluster &cluster, const Trainer &trainer,
                              const Measurements &measurements);

/// Returns the report of a calibration.
std::string toText(const Calibration &calibration, const std::string &trainer);
nlohmann::ordered_json toJson(const Calibration &calibration);

} // namespace kerf
