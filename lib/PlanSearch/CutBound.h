// SPDX-License-Identifier: Apache-2.0
// Lower bounds of the seconds of a pipeline whose stages hold certain parts of the model, and of the recomputation that
// memory forces on the stages. All seconds are at most what the simulator charges.
#pragma once

#include "Prices.h"

namespace kerf::plansearch {

/// The seconds and the memory of the device on which a pipeline stage runs.
struct StagePrices {
  const PassSeconds *seconds = nullptr; // of the whole model on the stage's device
  const DeviceSpec *device = nullptr;
  double memoryLimit = 0; // bytes; infinite: recomputation is pinned, so the memory limit forces none
  /// Seconds to reduce the gradients, as ParameterSeconds::reductionBySegment; null: not counted.
  const std::vector<double> *reductionSeconds = nullptr;
  const std::vector<double> *copiesSeconds = nullptr; // as ParameterSeconds::copiesBySegment; null: not counted
  double sendForward = 0, sendBackward = 0;           // seconds of a message to the next and to the previous stage
  double stateLimit = std::numeric_limits<double>::infinity(); // bytes into which the stage's states have to fit
};

/// The time at which gradients are reduced over the ranks that share parameters.
enum class ReductionTiming {
  AfterBackward,   // after the backward pass of the last microbatch
  BesideBackward,  // beside the backward pass of the last microbatch
  EveryMicrobatch, // beside the backward pass of every microbatch
};
/// Returns when gradients are reduced at a level of optimizer sharding; `gradientOverlap` is the plan's overlap.
ReductionTiming reductionTiming(int optimizerSharding, bool gradientOverlap);

/// Everything that the bound of a cut of the model into pipeline stages depends on, except the cut itself.
struct CutPrices {
  const ModelWork &model;
  const ActivationBytes &activations;
  const std::vector<double> &stateBytes; // as stateBytesOf
  std::span<const StagePrices> stages;   // indexed by stage; one entry: all stages are alike
  std::span<const Recompute> modes;      // recomputation modes that the trainer can run, in the order of Recompute
  ReductionTiming reductionTiming = ReductionTiming::BesideBackward;
  bool sendsOverlap = true; // whether messages between stages run beside kernels
  double tiedSeconds = 0;   // in which the first and the last stage sum gradients of tied parameters at the end
  /// Bytes of gathered parameters beside the states while an entry of ModelWork::chain runs (of one layer of a run).
  const std::vector<double> *gatheredBytes = nullptr; // null: not counted
  /// The recomputation modes that the constraints pin, of all stages; empty: none are pinned.
  std::span<const Recompute> pinnedModes = {};
  /// Returns the entry of a stage.
  const StagePrices &at(int64_t stage) const { return stages.size() == 1 ? stages[0] : stages[stage]; }
};
/// Returns a lower bound of the seconds of recomputation for one microbatch, summed over all stages, that the memory
/// limit forces on every cut; infinite when no cut fits. All stages have to be alike. `waits`: whether a microbatch
/// waits for its weight gradients, as with every schedule that splits the backward pass.
double forcedRecomputeSeconds(const CutPrices &prices, const ScheduleOptions &schedule, bool waits);
/// Returns a lower bound of the pipeline's seconds, without the optimizer, for a cut with the given number of layers in
/// each part. Each stage recomputes as little as its memory allows; infinite when some stage fits under no
/// recomputation. The computation stops early once the bound reaches `cutoff`. `layersOfParts` may leave out layers of
/// a model with one kind of layers; the bound then holds for every cut whose parts have at least as many.
double cutSecondsLowerBound(const CutPrices &prices, const std::vector<int64_t> &layersOfParts,
                            const ScheduleOptions &schedule, double cutoff);

/// Let x_s be the seconds of those tasks of a microbatch on stage s that a microbatch on its way through the pipeline
/// waits for, p the number of stages, m of microbatches, and let every stage hold one part. Stage s waits for the
/// stages before it, runs its tasks for m microbatches, and the last of them returns through the stages before it. So
/// T >= x_0 + ... + x_{s-1} + m x_s for every cut. The sum of these p inequalities with the weights
/// (1 - 1/m)^(p-1-s) / m is T (1 - (1 - 1/m)^p) >= sum x_s. Returns the factor of T.
double filledShare(double stages, double microbatches);

/// Returns a lower bound of the pipeline's seconds for every cut, whatever the schedule does with the weight gradients.
/// `total` and `there` are seconds of one microbatch on all stages together: of all its passes, and of those that it
/// waits for on its way through all stages and back. `layer` is the seconds of one of the `layers` layers.
double evenlyFilled(double stages, double microbatches, int64_t layers, double total, double there, double layer);

} // namespace kerf::plansearch
