// SPDX-License-Identifier: Apache-2.0
// A partial plan on a cluster -> every decision made (docs/plan.md has the defaults), or why it contradicts itself.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Schedule/Schedule.h"
#include "kerf/Search/Plan.h"
#include <functional>

namespace kerf {

struct Simulation;

/// The training job that plans are made for.
struct TrainingJob {
  std::string model;                      // its file, for messages
  std::string dtype = "f32";              // "f64", "f32", "bf16", "f16", "f8": of activations and products
  double moments = 0;                     // numbers that the optimizer keeps for each element of a parameter, on average
  const Trainer *trainer = &ownTrainer(); // that runs the plan
  int64_t globalBatch = 0;                // that the user asks for; 0: the plan says, or one microbatch a data group
  int64_t exportedBatch = 0;              // samples of an exported model, which are its global batch; 0: any batch
  std::optional<int64_t> ranks = {};      // the first of the cluster; absent: as many as the plan's mesh has, or all
  /// Pins that the model's layouts are made with: any plan has these, and no others.
  std::vector<OpPlan> ops;
  std::vector<ArgumentPlan> arguments;
  std::vector<OpRecompute> recomputeOps;
  bool opByOp = false; // the plan's strategies of ops say who has which samples: data groups need not have as many
  std::string wholeGroups = {}; // why a step needs all samples of a data group at once; empty: it takes microbatches
  /// Puts the figures of the program that a complete plan is lowered to into the plan's simulation, on CPUs; refuses
  /// plans that cannot be lowered. Empty: the simulator's figures are the plan's.
  std::function<Status(const Plan &plan, const Cluster &cluster, Simulation &simulation)> asLowered = {};
};

struct CompletedPlan {
  /// Nothing that an execution needs is free but `stages` (free: an even cut) and `predicted`. Stages that have the
  /// plan's mesh have none of their own, the others name all axes.
  Plan plan;
  std::string where;
  Cluster cluster; // the ranks that are used
  Mesh mesh;
  int64_t microbatches = 1; // of one data group
  ScheduleOptions schedule; // durations are filled in by the simulator
};

/// `where` names the plan in messages.
Result<CompletedPlan> completePlan(Plan plan, const std::string &where, const Cluster &cluster, const TrainingJob &job);

/// The words of a plan's `overlap`.
std::vector<std::string> overlapWords(const Overlap &overlap);
Overlap overlapOf(const std::vector<std::string> &words);

/// Some stage has a mesh of its own.
bool stagesDiffer(const Plan &completed);
/// The plan as stage `stage` has it: with its mesh, and the samples of one of its groups.
Plan ofStage(const Plan &completed, int64_t stage);

/// "data 2 x model 4", of a stage's mesh.
std::string stageMeshText(const std::map<std::string, int64_t> &sizes);

/// Ranks of the mesh that hold the same parameters: data x context x expert.
int64_t replicasOf(const Mesh &mesh);
/// Over what `optimizer_sharding` cuts on `ranks` ranks (0: all replicas), outermost first: of the axes of replicas,
/// from the innermost on, as much as the ranks have left. On data 4 x context 2, 4 ranks are the inner half of "data",
/// and "context".
std::vector<AxisRef> shardingAxes(const Mesh &mesh, int64_t ranks);

/// What of a completed plan decides a ModelWork; all else is chosen around it.
struct LayoutKey {
  int64_t model = 1, context = 1, expert = 1;                            // sizes of these axes
  int64_t microbatch = 1;                                                // samples of a data x expert group
  bool sequenceParallel = false, fusedAttention = true, ulysses = false; // ulysses: of a context of several ranks
  bool solved = false; // the solver decides what "model" cuts, not Megatron-LM's layout
  auto operator<=>(const LayoutKey &) const = default;
};
LayoutKey layoutOf(const Plan &completed);

} // namespace kerf
