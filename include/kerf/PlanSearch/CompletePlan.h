// SPDX-License-Identifier: Apache-2.0
// Completes a partial plan for a cluster: every decision that the plan leaves open gets its default value (docs/plan.md
// lists the defaults).
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Schedule/Schedule.h"
#include "kerf/Search/Plan.h"
#include <functional>

namespace kerf {

struct Simulation;

/// The training job that plans are made for: a model, its training options, and the software that runs the plan.
struct TrainingJob {
  std::string model;           // name of the model's file, for messages
  std::string dtype = "f32";   // element type of activations and products: "f64", "f32", "bf16", "f16" or "f8"
  double optimizerMoments = 0; // numbers that the optimizer keeps for each parameter element, on average
  const Trainer *trainer = &ownTrainer(); // the software that runs the plan
  int64_t globalBatch = 0;   // samples of a step, as the user asks; 0: the plan's, or one microbatch a model replica
  int64_t exportedBatch = 0; // samples of a step that an exported model is fixed to; 0: any number
  std::optional<int64_t> ranks = {}; // number of first ranks of the cluster to use; absent: as many as the mesh, or all
  /// The pins of ops and arguments with which the model's layouts are computed. A plan has exactly these or none.
  std::vector<OpPlan> ops;
  std::vector<ArgumentPlan> arguments;
  std::vector<OpRecompute> recomputeOps;
  /// Whether the strategies of single ops cut the batch, so that the global batch need not be a multiple of the number
  /// of model replicas.
  bool perOpStrategies = false;
  /// The reason why a step needs all samples of a model replica at once, for messages; empty: microbatches are
  /// possible.
  std::string noMicrobatchesReason = {};
  /// Lowers a complete plan to a program and replaces the figures in `simulation` by the program's. Fails for plans
  /// that cannot be lowered. Empty: plans are judged by the simulator's figures.
  std::function<Status(const Plan &plan, const Cluster &cluster, Simulation &simulation)> refineWithProgram = {};
};

/// A plan in which every decision is made.
struct CompletedPlan {
  /// The plan. Only `stages` may still be empty, which stands for an even cut, and `predicted` absent. Stages with the
  /// plan's mesh have no mesh of their own; a stage's own mesh gives the size of every axis.
  Plan plan;
  std::string where;        // names the plan in messages
  Cluster cluster;          // only the ranks that the plan uses
  Mesh mesh;                // the plan's mesh
  int64_t microbatches = 1; // number of microbatches that one model replica runs in a step
  ScheduleOptions schedule; // pipeline schedule; its task durations are left for the simulator to fill in
};

/// Returns whether the job's optimizer states may be kept otherwise than by OptimizerStates::Device: parameters are
/// bf16, and the optimizer is Adam, with two moments.
bool mayKeepStatesOtherwise(const TrainingJob &job);

/// Completes `plan` for the cluster. Fails when the plan contradicts itself, the job or the cluster. `where` names the
/// plan in messages.
Result<CompletedPlan> completePlan(Plan plan, const std::string &where, const Cluster &cluster, const TrainingJob &job);

/// Returns the words with which a plan's key "overlap" lists the kinds of overlap that are on.
std::vector<std::string> overlapWords(const Overlap &overlap);
/// Returns the overlap that a plan's words describe; unknown words are ignored.
Overlap parseOverlap(const std::vector<std::string> &words);

/// Returns whether some stage has a mesh of its own.
bool stagesDiffer(const Plan &completed);
/// Returns the plan with the mesh of stage `stage` as the plan's mesh, and with the microbatch of one data
/// group of that mesh.
Plan planOfStage(const Plan &completed, int64_t stage);

/// Returns the axis sizes of a stage's mesh as text, such as "data 2 x model 4".
std::string stageMeshText(const std::map<std::string, int64_t> &sizes);

/// Returns the number of ranks that hold the same parameters: the product of the axes "data", "context" and "expert".
int64_t replicaCount(const Mesh &mesh);
/// Returns the axes, outermost first, over which optimizer sharding on `ranks` ranks cuts states; 0 ranks stand for all
/// replicas. The innermost axes of replicas are used first, and an axis may be used in part: on data 4 x context 2, 4
/// ranks are the inner half of "data" together with "context".
std::vector<AxisRef> shardingAxes(const Mesh &mesh, int64_t ranks);

/// The decisions of a plan that determine the model's work (ModelWork). All other decisions leave the work unchanged.
struct LayoutKey {
  int64_t model = 1, context = 1, expert = 1; // ranks along these axes
  int64_t microbatch = 1;                     // samples of a microbatch on one data x expert group
  bool sequenceParallel = false;              // whether the axis "model" also cuts the sequence
  bool fusedAttention = true;                 // AttentionKernels::Fused instead of Unfused
  bool ulysses = false;                       // ContextStyle::Ulysses instead of Ring; false where "context" is 1
  bool solved = false; // OpLayout::Solved instead of OpLayout::Megatron; false where "model" is 1
  auto operator<=>(const LayoutKey &) const = default;
};
/// Returns the layout key of a completed plan.
LayoutKey layoutKeyOf(const Plan &completed);

} // namespace kerf
