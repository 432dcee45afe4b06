// SPDX-License-Identifier: Apache-2.0
// Who runs a step. A chip's constants are its curves (Cluster.h). What a trainer adds to every kernel, how it moves
// parameters, gradients and messages, and which plans it can run, is its record in lib/CostModel/Trainers.cpp
// (docs/cost-model.md, "Who runs it").
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/StepWork.h"
#include "kerf/Schedule/Schedule.h"
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kerf {

/// The kinds of communication that run beside compute instead of between kernels.
struct Overlap {
  bool gradients = true;  // reduction of gradients, beside the backward of the layers before
  bool parameters = true; // gathers of sharded parameters, one layer ahead
  bool tensor = false;    // independent collectives of a layer, beside its backward's products
  bool stage = true;      // sends between stages
  bool products = false;  // collectives next to products, in pieces beside the product of other pieces
};

/// Passes over a gradient when its parameter is updated, beside one read and write of states and weights.
struct UpdateKernel {
  double gradientAccesses = 1;  // reads and writes of the f32 gradient: for a norm, for clipping, by the update
  double scaleAccesses = 0;     // more of them where weights have 16 bits: a loss scale is divided out and checked
  bool widensGradients = false; // gradients of 16 bits are copied to f32 first
};

/// How parameters that are cut (optimizer sharding 3) are gathered.
struct ParameterGathers {
  bool wholeLayers = true;          // one flat parameter a layer; false: tensor by tensor
  bool againAfterRecompute = false; // dropped after a layer is recomputed, and gathered again for its backward
  double wholeBelowElements = 0;    // smaller parameters stay whole on every rank
  double copySeconds = 0;           // of the host, for the piece of each rank
};

/// How the ranks of "model" send activations to the next stage where all of them hold the same ones.
enum class StageSends {
  Scattered, // a share each, which the receivers gather
  Whole,     // everything each
};

/// The costs of a step that a trainer adds to those of the chip.
struct TrainerPrices {
  double issueSeconds = 0; // that the host needs to issue one kernel
  UpdateKernel update;
  ParameterGathers gathers;
  bool accumulatesInProducts = true; // weight gradients are added up by their products; false: by a pointwise kernel
  StageSends sends = StageSends::Scattered;
  double bucketBytes = 0; // gradients are reduced together from so many bytes on; 0: those of each parameter alone
};

/// Returns what the host takes to issue a kernel to the device: nothing on CPUs, where it runs the kernel itself.
inline double issueSeconds(const TrainerPrices &trainer, const Device &device) {
  return device.kind == "cpu" ? 0 : trainer.issueSeconds;
}
/// Returns the seconds of a reduction of `bytes` that goes in a bucket of at least `bucketBytes`: its share of the
/// bucket's.
double inBucketSeconds(const CollectiveModel &collectives, Collective kind, const std::vector<AxisRef> &axes,
                       double bytes, double bucketBytes);

/// The properties of a plan that decide a trainer's overlap.
struct StepShape {
  int64_t stages = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int optimizerSharding = 0; // of the stage that shards most
  bool sequenceParallel = false;
};

/// Which layers of a plan recompute.
enum class RecomputeForm {
  ByStage,      // in each stage as many as it needs to fit
  FirstOfParts, // the same number of first layers of every part in full; or all layers alike
  AllAlike,
};

/// The plans that a trainer can run: what `kerf plan --for` searches. The default is all that Kerf searches.
struct TrainerSpace {
  std::vector<ScheduleKind> schedules = {};               // of pipelines; empty: all
  std::vector<std::vector<std::string_view>> orders = {}; // of the mesh's axes, outermost first; empty: all
  std::vector<int> sharding = {0, 1, 2, 3};               // levels of optimizer sharding in one stage
  std::vector<int> shardingInPipelines = {0, 1, 2, 3};    // and in several
  bool shardsGroups = true;                               // over fewer ranks than hold the same parameters
  bool shardsPartsOfContext = true;                       // of which some may hold a part of the context alone
  bool copiesBesideOtherAxes = true;                      // level 0 where ranks differ in more than their samples
  bool solvedLayout = true;                               // layouts other than Megatron-LM's
  bool wholeSequences = true;                             // "model" without sequence parallelism
  bool sequenceBesideContext = true;                      // sequence parallelism and "context"
  bool splitBackwardBesideSequence = true;                // zero-bubble schedules and sequence parallelism
  std::vector<ContextStyle> contextStyles = {ContextStyle::Ring, ContextStyle::Ulysses};
  bool contextInPipelines = true, contextBesideExperts = true, expertsInPipelines = true;
  bool unevenStages = true;
  std::vector<Recompute> recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
  RecomputeForm recomputeForm = RecomputeForm::ByStage;
  bool partNodes = true;                         // several nodes of which one is used in part
  bool mixedClusters = true;                     // stages on devices of different kinds
  std::vector<std::string_view> dtypes = {};     // empty: all
  std::vector<std::string_view> optimizers = {}; // empty: all
};

/// Everything that Kerf knows of a trainer. A new one is a record in lib/CostModel/Trainers.cpp.
struct Trainer {
  std::string_view name, title; // "megatron", "Megatron-LM"
  std::string_view summary;     // which version, and where it runs
  bool ownPrograms = false;     // steps are programs that Kerf lowers itself, on CPUs too
  bool dated = false;           // as it was in the year of its name: for comparisons with published runs
  TrainerPrices prices;
  /// Returns the communication that the trainer runs beside compute where a plan does not say it. `tensor` and
  /// `products` may depend on sequence parallelism alone: the search asks for these before it decides the rest.
  Overlap (*overlap)(const StepShape &shape) = nullptr;
  TrainerSpace space;
  /// The sources of the record's facts, by fact: "issue", "update", "gathers", "accumulation", "sends", "buckets",
  /// "overlap", "space".
  std::vector<std::pair<std::string_view, std::string_view>> sources;
};

/// All trainers; the first one is Kerf itself.
std::span<const Trainer> trainers();
/// Null: there is no trainer of this name.
const Trainer *findTrainer(std::string_view name);
inline const Trainer &ownTrainer() { return trainers().front(); }
std::vector<std::string> trainerNames();

} // namespace kerf
