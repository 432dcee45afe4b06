// SPDX-License-Identifier: Apache-2.0
// Seconds and bytes from which the search's lower bounds are computed (Bounds.h). All seconds are at most what the
// simulator charges, whatever the undecided part of a plan turns out to be.
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/StepMemory.h"

#include <array>
#include <limits>
#include <span>

namespace kerf::plansearch {

/// Least seconds in which one microbatch passes through the whole model, unsplit, on one rank's share: kernels, the
/// collectives that kernels wait for, and the least share of those that run beside kernels (leastExposedShare).
struct PassSeconds {
  /// Seconds of one entry of ModelWork::chain; for a run of layers, of one layer.
  struct SegmentSeconds {
    double forward = 0, inputGradient = 0, weightGradient = 0; // of one microbatch, by pass
    /// Seconds of the forward pass that the backward pass repeats, indexed by Recompute. Recomputation that happens
    /// under every mode is counted in `inputGradient` instead.
    std::array<double, std::size(kDeviceModes)> recompute = {};
    /// Returns the seconds of both gradients.
    double backward() const { return inputGradient + weightGradient; }
    /// Returns the seconds of the forward pass and both gradients.
    double total() const { return forward + backward(); }
  };
  std::vector<SegmentSeconds> segments; // indexed as ModelWork::chain
  double forward = 0, backward = 0;     // all layers together, without recomputation
  double weightGradient = 0;            // the part of `backward` for weight gradients
  double layer = 0;                     // forward and backward of the cheapest layer; 0 for a model without layers
  /// Returns the seconds of the forward and backward pass of the whole model.
  double total() const { return forward + backward; }
};

/// The handling of gradients that every microbatch repeats, as far as the choices made so far decide it.
struct MicrobatchGradients {
  /// Bytes of the gradients that kernels of their own add to the sum; null: no such kernels are known to run.
  const StateBytes *accumulated = nullptr;
  /// Seconds of reductions beside the backward pass, as ParameterSeconds::reductionBySegment; null: none are known.
  const std::vector<double> *reductionSeconds = nullptr;
  bool splitBackward = false; // whether only the weight gradient runs beside the reductions, not the input gradient
};
/// Computes PassSeconds. `collectives` null: without any communication. Where the constraints pin recomputation,
/// `recompute` has the modes of all stages; what all of them recompute is then counted in `inputGradient`.
PassSeconds passSeconds(const ModelWork &model, const DeviceSpec &device, const CollectiveModel *collectives,
                        const Overlap &overlap, const TrainerPrices &trainer, const std::vector<Recompute> &recompute,
                        const MicrobatchGradients &gradients = {});

/// Returns the seconds of the model's products at the highest FLOP/s that the device reaches for any shape.
/// `recompute` is as for passSeconds.
double bestCaseSeconds(const ModelWork &model, const DeviceSpec &device, const TrainerPrices &trainer,
                       const std::vector<Recompute> &recompute);

/// Returns an upper bound of how many times faster `device` runs the model's kernels than `baseline`, both at their
/// highest rates. It compares the device groups of a mixed cluster.
double bestCaseSpeedup(const ModelWork &model, const DeviceSpec &device, const DeviceSpec &baseline);
/// Returns how many times faster `passes` runs a kind of layer (forward and backward) than `baseline`, for the kind
/// with the highest ratio. It compares the device groups of a mixed cluster.
double relativeLayerSpeed(const ModelWork &model, const PassSeconds &passes, const PassSeconds &baseline);

/// Returns the least share that one of `ranks` ranks has in the kernels, parameters and activations of `model`, under
/// every layout: operations and bytes divided by the number of ranks, kernels of the most efficient shape,
/// as many launches, and no collectives. Self-attention runs as ring attention over `ring` ranks.
ModelWork leastShareOfWork(const ModelWork &model, int64_t ranks, int64_t ring);

/// Returns the parameters of earlier entries of the chain that its last entry uses too (tied embeddings). With several
/// pipeline stages, the first and the last stage have copies of them.
std::vector<ParameterGroup> tiedToLast(const ModelWork &model);
/// Returns the chain of `model` with nothing but the parameters that `stages` pipeline stages hold, with their copies.
ModelWork parametersOnly(const ModelWork &model, int64_t stages);

/// A collective that a model runs several times for each microbatch, and the number of runs in all layers, by pass.
struct RepeatedCollective {
  PassCollective collective;
  double forward = 0, inputGradient = 0, weightGradient = 0;
};
/// Returns the least share of a collective's seconds by which it makes a step of a plan with this overlap longer: 1
/// where kernels wait for it, and less where kernels other than those of attention may run beside it.
double leastExposedShare(const PassCollective &collective, const Overlap &overlap);
/// Returns the collectives of the model's layers over the axis `axis` alone, without those that run beside attention;
/// with `tokensOnly`, only exchanges of tokens. Bytes count at most one activation of the stream.
std::vector<RepeatedCollective> collectivesOfLayers(const ModelWork &model, int axis, bool tokensOnly);

/// Activation bytes that one layer keeps for its backward pass, indexed by [entry of ModelWork::chain][Recompute].
using ActivationBytes = std::vector<std::array<LayerActivationBytes, std::size(kDeviceModes)>>;
/// Computes the activation bytes of every segment of the model under every recomputation mode.
ActivationBytes activationBytesOf(const ModelWork &model);
/// Optimizer sharding (ZeRO): its level, and the axes whose ranks share states as in StepPlan::shardingAxes.
struct OptimizerSharding {
  int level = 0;                                 // 0 to 3
  std::optional<std::vector<AxisRef>> axes = {}; // absent: all ranks with the same parameters share states
};
/// Returns bytes of parameters, gradients and optimizer states on one rank, indexed by entry of ModelWork::chain; for a
/// run of layers, of one layer.
std::vector<double> stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes,
                                 const OptimizerSharding &sharding);
/// Returns the sum over the whole model of a quantity that is given by entry of ModelWork::chain, for one
/// layer of each run.
double totalOverChain(const ModelWork &model, const std::vector<double> &bySegment);

/// Seconds of communication of all parameters of the model, one collective after the other.
struct ParameterSeconds {
  double everyMicrobatch = 0; // gathers of parameters and reductions of gradients that each microbatch repeats
  double reductionTotal = 0;  // one reduction of the gradients of the whole model
  double gatherTotal = 0;     // one gather of the parameters of the whole model, with sharding 1 and 2
  std::vector<double> reductionBySegment; // one reduction, indexed by entry of ModelWork::chain; of one layer of a run
  /// Sums, once a step, of shards over the ranks that have copies of them, where every microbatch reduces into shards;
  /// otherwise the reductions contain them. As reductionTotal and reductionBySegment.
  double copiesTotal = 0;
  std::vector<double> copiesBySegment;
};
/// Computes ParameterSeconds. `bucketBytes` is the trainer's least size of a reduction.
ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  const OptimizerSharding &sharding, bool gradientOverlap, double bucketBytes);

} // namespace kerf::plansearch
