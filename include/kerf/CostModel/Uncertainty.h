// SPDX-License-Identifier: Apache-2.0
// How sure a prediction is. Each kind of work (products, attention, ...) takes a factor more or less than predicted;
// the factors are log-normal, and their spread is known from published runs. The step is simulated again with each
// kind's work scaled by its spread, so that the spread of the step follows from the timeline (docs/cost-model.md,
// "Intervals").
//
//   products +-6 % of a step that is 80 % products, links +-15 % of a step that hides them:   +-5 % of the step
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Support/Interval.h"
#include <array>
#include <functional>
#include <string_view>
#include <vector>

namespace kerf {

struct StepWork;
struct TrainerPrices;
struct StepPlan;
struct Simulation;
struct StageMemory;
class PipelineModel;

/// Kinds of work whose seconds are wrong together: an error of one product's price is an error of all products' prices.
enum class WorkKind {
  Products,     // matrix products
  Attention,    // fused attention
  Memory,       // kernels that are bound by memory
  Host,         // launches of kernels and collectives
  LinksInside,  // collectives inside a node
  LinksBetween, // collectives and messages between nodes
};
inline constexpr size_t kWorkKinds = 6;
/// Values by WorkKind.
using ByWorkKind = std::array<double, kWorkKinds>;
/// Returns the name of a kind of work in files and reports: "products", "links inside nodes", ...
std::string_view toString(WorkKind kind);

/// The spread of the logarithm of measured by predicted seconds, for each kind of work (docs/cost-model.md,
/// "Intervals").
const ByWorkKind &spreadOfKinds();
/// The spread of what no kind explains and what differs from plan to plan, and of what all plans of one job share.
inline constexpr double kSpreadOfPlan = 0.03, kSpreadOfJob = 0.03;
/// The spread of what all plans share under a trainer to whose runs nothing was fitted.
inline constexpr double kSpreadOfTrainer = 0.1;
/// Returns the spread of what all plans of one job share under a trainer.
double spreadOfJob(const TrainerPrices &trainer);
/// The distance from the median to either end of an interval that holds 80 % of a normal distribution, in spreads.
inline constexpr double kEightyPercent = 1.2816;

/// Returns the cluster on which work of `kind` takes `factor` times as long.
Cluster withScaledWork(Cluster cluster, WorkKind kind, double factor);

/// Returns the value that a log-normal quantity with the 80 % interval `interval` exceeds with the probability `risk`,
/// which is above 0 and below 1.
double exceededAtRisk(Interval interval, double risk);

/// How sure the prediction of a step is.
struct Uncertainty {
  /// Change of the logarithm of the step's seconds if a kind of work takes one spread longer than predicted.
  ByWorkKind changes = {};
  double spread = 0;                 // spread of the logarithm of the step's seconds
  Interval stepSeconds;              // seconds of a step
  std::vector<Interval> peakBytes;   // StageMemory::peakBytes of each stage
  std::vector<Interval> deviceBytes; // StageMemory::deviceBytes of each stage
  /// Returns the seconds that the step exceeds with the probability `risk`.
  double secondsAtRisk(double risk) const { return exceededAtRisk(stepSeconds, risk); }
};

/// Returns the intervals of the memory of a stage: of its allocated bytes, and of what the device must have.
std::pair<Interval, Interval> memoryIntervals(const StageMemory &memory, const DeviceSpec &device);

/// Makes the pipeline of the plan on a cluster with other prices.
using MakePipeline = std::function<Result<PipelineModel>(const Cluster &)>;
/// Returns how sure `simulation` is, the simulation of `work` under `plan` on `cluster`. Fails as simulate() does.
Result<Uncertainty> uncertaintyOf(const StepWork &work, const StepPlan &plan, const Cluster &cluster,
                                  const MakePipeline &make, const Simulation &simulation);
/// Returns how sure the figures of a program that Kerf compiles for CPUs are: its bytes are exact.
Uncertainty uncertaintyOfProgram(const Simulation &simulation);

/// Moves the intervals to the seconds and bytes of `simulation`, with their relative widths as they are.
void recenter(Uncertainty &uncertainty, const Simulation &simulation);

/// Returns whether two plans of one job are a tie: the probability that `slower`, which is predicted to be slower, is
/// slower in fact is below 90 %. Errors of a kind of work are errors of both plans, so only their difference counts.
bool isTie(const Uncertainty &faster, const Uncertainty &slower);

} // namespace kerf
