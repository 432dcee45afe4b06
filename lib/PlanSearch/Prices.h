// SPDX-License-Identifier: Apache-2.0
// Seconds that the simulator charges at least, whatever else of a plan is chosen: what the bounds are made of.
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/StepMemory.h"

#include <array>
#include <span>

namespace kerf::plansearch {

/// Of one microbatch through the whole chain on one rank's share: kernels, and the collectives that nothing hides.
struct PassSeconds {
  struct Link {
    double forward = 0, inputGradient = 0, weightGradient = 0;
    std::array<double, 3> again = {}; // forward that is run again, by Recompute; what always is is in inputGradient
    double backward() const { return inputGradient + weightGradient; }
    double whole() const { return forward + backward(); }
  };
  std::vector<Link> links;          // of the chain: one layer of each run
  double forward = 0, backward = 0; // of all layers; no recomputation
  double weightGradient = 0;        // of that
  double layer = 0;                 // of the cheapest layer, both passes
  double whole() const { return forward + backward; }
};
/// `collectives` null: kernels alone. `accumulated`: the bytes of gradients that kernels of their own add up in every
/// microbatch; null where nothing is known to be added so.
PassSeconds passSeconds(const ModelWork &model, const Device &device, const CollectiveModel *collectives,
                        const Overlap &overlap, const TrainerPrices &trainer, const StateBytes *accumulated = nullptr);

/// FLOPs over the best rate that the device reaches with any shape.
double bestSeconds(const ModelWork &model, const Device &device);

// Of a mixed cluster: the most that a rank of one group does in the time in which one of another does 1.
/// Of kernels at their best rates.
double bestSpeed(const ModelWork &model, const Device &device, const Device &than);
/// Of layers, both passes.
double speedOf(const ModelWork &model, const PassSeconds &passes, const PassSeconds &than);

/// By link of the chain, of one layer of it.
using LinkHeld = std::vector<std::array<HeldBytes, 3>>; // by Recompute
LinkHeld heldOf(const ModelWork &model);
/// ZeRO's stage, and the ranks that share states as in StepPlan.
struct OptimizerSharding {
  int level = 0;
  std::optional<std::vector<AxisRef>> axes = {};
};
/// Parameters, gradients and states on one rank.
std::vector<double> stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes,
                                 const OptimizerSharding &sharding);
/// Of all layers together.
double wholeOf(const ModelWork &model, const std::vector<double> &ofLinks);

/// What a stage runs on.
struct StagePrices {
  const PassSeconds *seconds = nullptr;
  const Device *device = nullptr;
  double memoryLimit = 0;                          // infinite: recomputation is not for the search to decide
  const std::vector<double> *reductions = nullptr; // ParameterSeconds::reductions
  double sendOn = 0, sendBack = 0;                 // messages to the neighbours, where there are such
};

/// When gradients are reduced over the ranks that share parameters: after the last microbatch, beside its backward, or
/// beside every microbatch's.
enum class Reductions { After, Beside, EveryMicrobatch };
Reductions reductionsOf(int optimizerSharding, bool gradientOverlap);

/// What bounds a cut.
struct CutPrices {
  const ModelWork &model;
  const LinkHeld &held;
  const std::vector<double> &states;
  std::span<const StagePrices> stages; // one entry: all alike
  Reductions reductions = Reductions::Beside;
  bool sendsOverlap = true;
  const StagePrices &at(int64_t stage) const { return stages.size() == 1 ? stages[0] : stages[stage]; }
};
/// Seconds of recomputation for one microbatch, of all stages together, that memory forces however the layers are cut;
/// infinite: they do not fit. Of stages that are alike.
double forcedSeconds(const CutPrices &prices, const ScheduleOptions &schedule);
/// A bound of the pipeline's seconds (no optimizer) with so many layers in each part: stages that hold too much
/// recompute. Infinite: some stage holds too much with any. Ends with a lesser bound once that is `enough`.
double cutSeconds(const CutPrices &prices, const std::vector<int64_t> &layersOfParts, const ScheduleOptions &schedule,
                  double enough);

/// Of all parameters of the chain, one after the other.
struct ParameterSeconds {
  double everyMicrobatch = 0;     // gathers and reductions of shards
  double reduction = 0;           // of gradients, each time that they are reduced: all of them
  std::vector<double> reductions; // by link, of one layer of it
};
ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  const OptimizerSharding &sharding, bool gradientOverlap, double bucketBytes);

} // namespace kerf::plansearch
