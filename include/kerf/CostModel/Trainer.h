// SPDX-License-Identifier: Apache-2.0
// Trainers: the programs that can run a plan, such as Megatron-LM or Kerf's own runtime. A trainer's record says which
// costs it adds to those of the hardware, how it moves parameters, gradients and messages, and which plans it can run
// (docs/cost-model.md, "Who runs it"). Constants of the hardware are DeviceCurves (Cluster.h).
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/CostModel/Recompute.h"
#include "kerf/Schedule/Schedule.h"
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kerf {

/// The kinds of communication that overlap with compute. Communication of the other kinds runs between kernels.
struct Overlap {
  bool gradients = true;  // whether reductions of gradients overlap with the backward of the preceding layers
  bool parameters = true; // whether gathers of sharded parameters run one layer ahead
  bool tensor = false;    // whether collectives that some kernels of a layer do not need overlap with these kernels
  bool stage = true;      // whether messages between pipeline stages overlap with the next task
  bool products = false;  // whether a product and an adjacent collective are split into pieces that overlap
  /// Whether exchanges of tokens with experts run beside the kernels of the other pass of another microbatch: those of
  /// a forward beside a backward, and the other way round.
  bool experts = false;
};

/// How often the optimizer's update reads and writes the gradient, in addition to one read and write of the
/// states and weights.
struct UpdateKernel {
  double gradientAccesses = 1; // number of reads and writes of the f32 gradient for norm, clipping and update
  double scaleAccesses =
      0; // number of additional reads and writes for loss scaling and overflow checks if weights have 16 bits
  bool widensGradients = false; // whether 16-bit gradients are first copied to f32
  /// Whether no stage updates before all stages have all gradients, under schedules that split the backward too
  /// (Schedule::splitBackward): the norm for clipping is summed over the stages.
  bool waitsForAllStages = false;
};

/// How parameters that are sharded by ZeRO stage 3 are gathered.
struct ParameterGathers {
  bool wholeLayers = true; // whether one gather fetches a complete layer; false: one gather for each tensor
  /// Whether parameters are dropped after a layer is recomputed, and gathered anew for its backward.
  bool regathersForBackward = false;
  double replicatedBelowElements = 0; // parameters with fewer elements than this stay replicated on every rank
  double copySeconds = 0;             // seconds of the host for each rank's piece of a gathered tensor
  /// Whether pipelines gather parameters once a step and keep them, and reduce gradients once a step.
  bool onceInPipelines = false;
};

/// Bytes that a trainer allocates beside weights, gradients, optimizer states and activations.
struct TrainerMemory {
  /// Bytes per parameter element that the update keeps, such as copies of gradients; sharded as the optimizer states.
  double updateBytes = 0;
  double wideGradientBytes = 0;   // bytes per element of a second, narrow gradient beside accumulated f32 gradients
  double lossBytes = 0;           // bytes per score of the classifier while the gradient of the loss is computed
  double bufferBytes = 0;         // bytes of buffers for collectives, whatever the model
  RingMemory ring = {};           // what ring attention holds
  bool keepsStageOutputs = false; // whether a pipeline stage keeps its result for each microbatch in flight
  /// Whether a split backward keeps all activations of a microbatch until its weight gradient; false: only those that
  /// the weight gradient reads.
  bool keepsAllForWeightGradient = false;
};

/// The activations that tensor-parallel ranks send to the next pipeline stage if they all hold the same ones.
enum class StageSends {
  Scattered, // each rank sends a different share, and the receivers gather the shares
  Full,      // each rank sends the complete activations to its partner
};

/// The costs of a step that a trainer adds to those of the hardware.
struct TrainerPrices {
  double issueSeconds = 0;           // seconds that the host needs to issue one kernel
  UpdateKernel update = {};          // gradient accesses of the optimizer's update
  ParameterGathers gathers = {};     // how parameters that ZeRO stage 3 shards are gathered
  bool accumulatesInProducts = true; // whether products add to accumulated gradients; false: a separate kernel does
  StageSends sends = StageSends::Scattered; // what ranks with the same activations send to the next stage
  double bucketBytes = 0; // smallest bytes of gradients that are reduced together; 0: each parameter separately
  TrainerMemory memory = {};
  /// Whether the host waits for each kernel before it issues the next one (CUDA_LAUNCH_BLOCKING=1).
  bool waitsForKernels = false;
  bool interpreted = false; // whether an interpreter issues kernels, so that issueSeconds depends on the host's speed
  /// Whether fused attention runs the device vendor's kernels (DeviceCurves::vendorAttention).
  bool vendorAttention = false;
  /// Whether no constant was fitted to runs of this trainer, so that its predictions are less sure (kSpreadOfTrainer).
  bool unmeasured = false;
};

/// Returns the seconds that the host needs to issue a kernel to the device; 0 on CPUs, where the host runs the kernel.
inline double issueSeconds(const TrainerPrices &trainer, const DeviceSpec &device) {
  return device.kind == "cpu" ? 0 : trainer.issueSeconds * (trainer.interpreted ? device.curves.issueScale : 1);
}
/// Returns the library of fused attention that the trainer uses.
inline AttentionLibrary attentionLibrary(const TrainerPrices &trainer) {
  return trainer.vendorAttention ? AttentionLibrary::Vendor : AttentionLibrary::Common;
}
/// Returns the ZeRO stage whose seconds and bytes a plan with ZeRO stage `sharding` on `stages` pipeline stages has:
/// stage 3 in a pipeline that gathers parameters once a step costs what stage 1 costs.
inline int pricedSharding(const TrainerPrices &trainer, int sharding, int64_t stages) {
  return sharding == 3 && stages > 1 && trainer.gathers.onceInPipelines ? 1 : sharding;
}
/// Returns the seconds of reducing `bytes` of gradients that share a bucket of at least `bucketBytes`: the share of
/// these bytes in the seconds of the bucket's collective of pattern `kind` along `axes`.
double bucketedReductionSeconds(const CollectiveModel &collectives, Collective kind, const std::vector<AxisRef> &axes,
                                double bytes, double bucketBytes);

/// The properties of a plan that decide which communication a trainer overlaps.
struct StepShape {
  int64_t stages = 1;                             // number of pipeline stages
  ScheduleKind schedule = ScheduleKind::OneFOneB; // pipeline schedule of the plan
  int optimizerSharding = 0;                      // ZeRO stage, 0 to 3; the largest one of all pipeline stages
  bool sequenceParallel = false;                  // whether tensor parallelism includes sequence parallelism
};

/// The patterns in which a trainer can distribute recomputation over the layers.
enum class RecomputeForm {
  ByStage,      // each pipeline stage recomputes as many layers as it must to fit into memory
  FirstOfParts, // full recomputation of the same number of first layers of every part, or the same mode for all layers
  AllAlike,     // the same mode for all layers
};

/// The plans that a trainer can run; `kerf plan --for` searches only these. The default is everything
/// that Kerf searches.
struct TrainerSpace {
  std::vector<ScheduleKind> schedules = {}; // pipeline schedules; empty: all
  /// Orders of the mesh axes, each from the outermost to the innermost axis; empty: all orders.
  std::vector<std::vector<std::string_view>> meshOrders = {};
  std::vector<int> optimizerShardings = {0, 1, 2, 3};            // ZeRO stages without pipeline parallelism
  std::vector<int> optimizerShardingsInPipelines = {0, 1, 2, 3}; // ZeRO stages with pipeline parallelism
  bool shardsOverSubgroups = true;       // whether ZeRO can shard over fewer ranks than hold the same parameters
  bool subgroupsCutContext = true;       // whether such a subgroup may contain only a part of the "context" axis
  bool replicatesBesideOtherAxes = true; // whether ZeRO stage 0 can be combined with axes other than "data"
  bool solvedLayout = true;              // whether tensor parallelism may use shardings other than Megatron-LM's
  bool unevenHeads = true;               // whether tensor parallelism may have sizes that do not divide the heads
  bool tensorWithoutSequence = true;     // whether tensor parallelism can run without sequence parallelism
  bool sequenceWithContext = true;       // whether sequence and context parallelism can be combined
  bool zeroBubbleWithSequence = true;    // whether zero-bubble schedules and sequence parallelism can be combined
  bool zeroBubbleWithRecompute = true;   // whether zero-bubble schedules and recomputation can be combined
  std::vector<ContextStyle> contextStyles = {ContextStyle::Ring, ContextStyle::Ulysses}; // kinds of context parallelism
  bool contextInPipelines = true; // whether context and pipeline parallelism can be combined
  bool contextWithExperts = true; // whether context and expert parallelism can be combined
  bool expertsInPipelines = true; // whether expert and pipeline parallelism can be combined
  bool unevenStages = true;       // whether pipeline stages may have different numbers of layers
  /// Recomputation modes that plans may have, in the order of Recompute.
  std::vector<Recompute> recompute{std::begin(kDeviceModes), std::end(kDeviceModes)};
  /// Whether plans may pin that the activations of all layers but the last wait in the host's memory.
  bool offloadsAllButLast = false;
  RecomputeForm recomputeForm = RecomputeForm::ByStage; // distribution of recomputation over the layers
  /// How the states of Adam may be kept, beside OptimizerStates::Device, with optimizer sharding 1 and types of 16
  /// bits.
  std::vector<OptimizerStates> optimizerStates = {};
  /// Whether exchanges of tokens with experts can overlap (Overlap::experts) where no ranks of "model" or "context"
  /// are, with one stage or several chunks, with optimizer sharding of at most 1, without full recomputation, in 16
  /// bits.
  bool overlapsExperts = false;
  bool partialNodes = true;                      // whether the last of several nodes may be used in part
  bool mixedClusters = true;                     // whether pipeline stages may run on devices of different kinds
  std::vector<std::string_view> dtypes = {};     // element types; empty: all
  std::vector<std::string_view> optimizers = {}; // optimizers; empty: all
};

/// Everything that Kerf needs to know about a trainer. A new trainer is a record in lib/CostModel/Trainers.cpp.
struct Trainer {
  std::string_view name;    // word for `kerf plan --for`: "megatron"
  std::string_view title;   // name in messages: "Megatron-LM"
  std::string_view summary; // which version it is, and where it runs
  bool ownPrograms = false; // whether it runs programs that Kerf compiles, on CPUs too; true for Kerf itself only
  bool historical = false;  // whether it is an old version, kept for comparisons with published runs
  TrainerPrices prices;     // costs that the trainer adds to those of the hardware
  /// Returns the communication that the trainer overlaps with compute unless a plan says otherwise. The fields `tensor`
  /// and `products` of the result must depend on sequence parallelism only, because the search needs these two fields
  /// before it has decided the other properties.
  Overlap (*overlap)(const StepShape &shape) = nullptr;
  TrainerSpace space; // plans that the trainer can run
  /// Sources of the facts in this record, as pairs of fact and source. The facts are the fields of `prices` ("issue"
  /// for the seconds of a kernel's launch, "update", "gathers", "accumulation" of gradients in products, "sends",
  /// "buckets"), "overlap", and "space" (the plans that the trainer can run).
  std::vector<std::pair<std::string_view, std::string_view>> sources;
};

/// Returns the records of all trainers. The first one is Kerf itself.
std::span<const Trainer> trainers();
/// Returns the record of the trainer named `name`, or null if there is none.
const Trainer *findTrainer(std::string_view name);
/// Returns the record of Kerf's own runtime.
inline const Trainer &ownTrainer() { return trainers().front(); }
/// Returns the names of all trainers, in the order of trainers().
std::vector<std::string> trainerNames();

} // namespace kerf
