// SPDX-License-Identifier: Apache-2.0
// The search space of whole plans as a tree (docs/search.md, "The whole plan"): each level of the tree decides one more
// part of a plan.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

#include <array>
#include <optional>

namespace kerf::plansearch {

/// Ranks along each mesh axis.
struct AxisSizes {
  int64_t stage = 1, data = 1, context = 1, expert = 1, model = 1;
  /// Returns the number of ranks of the mesh.
  int64_t ranks() const { return stage * data * context * expert * model; }
  /// Returns the sizes in the order of kPlanAxes.
  std::array<int64_t, std::size(kPlanAxes)> asArray() const { return {stage, data, context, expert, model}; }
};

/// The axes of a mesh from the outermost to the innermost, by their index in kPlanAxes.
using AxisOrder = std::array<int8_t, std::size(kPlanAxes)>;

/// A node of the search tree: a plan that is decided down to `level`. A search makes millions of choices, so a choice
/// allocates no memory.
struct Choice {
  /// The levels of the search tree, from the root down. Each level decides the fields of Choice that follow the comment
  /// with the level's name.
  enum class Level : int8_t { Mesh, Layout, Order, Execution, Cut, Recomputation };
  Level level = Level::Mesh; // the last level that is decided
  // Mesh
  AxisSizes sizes; // ranks along each mesh axis
  // Layout
  int64_t microbatch = 0;        // samples of a microbatch on one model replica
  bool sequenceParallel = false; // whether the axis "model" also cuts the sequence
  bool solved = false;           // OpLayout::Solved instead of OpLayout::Megatron
  bool ulysses = false;          // ContextStyle::Ulysses instead of Ring; false where "context" is 1
  // Order
  AxisOrder order = {0, 1, 2, 3, 4}; // axes of the mesh, outermost first
  // Execution
  ScheduleKind schedule = ScheduleKind::OneFOneB; // pipeline schedule
  int64_t chunks = 1;                             // parts of the model that each stage holds
  int optimizerSharding = 0;                      // the ZeRO level; 0 where the constraints decide it
  int64_t shardingRanks = 0; // ranks that share one copy of the states; 0: all that hold the same parameters
  OptimizerStates states = OptimizerStates::Device; // how the optimizer's states are kept
  bool overlapsExperts = false;                     // whether Overlap::experts is on beside the trainer's own overlap
  // Cut. The parts between the first and the last share the remaining layers evenly; earlier ones get the extra layers.
  int64_t firstPartLayers = 0, lastPartLayers = 0;
  std::array<int32_t, kMostPlannedGroups> layersOfGroup = {}; // mixed cluster only: layers on each device group
  // Recomputation
  int recomputation = -1; // index in the search's list of recomputations; -1: none is chosen
  /// A bit set of the questions that plans below this choice can answer (DecisionQuestions.h). A search for the best
  /// plan has one question only.
  uint16_t questions = 1;
};

/// Returns the parts of a cluster within which all ranks are alike: its groups, or the whole cluster.
std::vector<const Cluster *> uniformGroups(const Cluster &cluster);

/// Generates the choices of each level from a choice of the level above.
class Space {
public:
  /// `layers` is the number of the model's layers. The arguments must outlive the space.
  Space(const PlanSearchOptions &options, const TrainingJob &job, const Cluster &cluster, int64_t layers);

  /// Returns all meshes. Fails when the constraints allow none.
  Result<std::vector<Choice>> meshes() const;
  /// Returns all layouts on a mesh.
  std::vector<Choice> layouts(const Choice &mesh) const;
  /// Returns whether the space omits a layout because a larger axis "data" is at least as good. With a common factor g
  /// of "context" and the microbatch, the layout with data * g, context / g and microbatch / g computes as much on each
  /// rank and communicates less for attention. Nothing is omitted when one of the three is pinned.
  bool dataAxisDominates(const Choice &layout) const;
  /// Returns all orders of the mesh axes of a layout.
  std::vector<AxisOrder> orders(const Choice &layout) const;
  /// Returns all schedules and optimizer shardings for an order.
  std::vector<Choice> executions(const Choice &order) const;
  /// Returns all cuts of the layers into parts for an execution.
  std::vector<Choice> cuts(const Choice &execution) const;
  /// Returns how the optimizer's states may be kept at a level of optimizer sharding. Where the trainer can keep
  /// remainders, they take the place of Device: they need less memory and time, and the numbers are the same.
  std::vector<OptimizerStates> statesAt(int64_t sharding) const;
  /// Returns whether some plans below a choice may overlap exchanges of tokens (Overlap::experts).
  bool mayOverlapExperts(const Choice &choice) const;
  /// Returns the numbers of ranks that may share optimizer states on a mesh; 0 stands for all that
  /// hold the same parameters.
  std::vector<int64_t> shardingRanks(const Mesh &mesh) const;

  /// Returns pairs of a ZeRO level, 0 where the constraints decide it, and the number of ranks that share states.
  std::vector<std::pair<int, int64_t>> shardings(const Choice &order) const;

  /// Returns the samples of a step.
  int64_t globalBatch() const { return batch; }
  /// Returns the number of the model's layers.
  int64_t layers() const { return layerCount; }
  /// Returns the choice's mesh: its axes of size greater than 1, in order.
  Mesh mesh(const Choice &choice) const;
  /// Returns the choice's pipeline schedule; task durations are left for the simulator to fill in.
  ScheduleOptions schedule(const Choice &choice) const;
  /// Returns the number of microbatches of one model replica in a step.
  int64_t microbatches(const Choice &choice) const {
    return batch / (choice.sizes.data * choice.sizes.expert * choice.microbatch);
  }
  /// Returns the plan of a choice: the constraints with all decisions of the choice except recomputation.
  Plan plan(const Choice &choice) const;
  /// Returns the device group of each stage, for a mesh of the space; empty when all ranks are alike.
  const std::vector<int> &groupsOf(const AxisSizes &sizes) const;
  /// Returns the number of layers of each part, for a choice that is decided down to Level::Cut.
  std::vector<int64_t> layersOfParts(const Choice &choice) const;
  /// Returns a number of layers for each part that no cut below a choice of Level::Execution goes below: 0 for the
  /// first and the last part. Empty where this says nothing: with constraints of the cut, on mixed clusters, and for
  /// fewer than three parts.
  std::vector<int64_t> leastLayersOfParts(const Choice &execution) const;
  /// Returns whether the space decides the cut or a part of it; false where the constraints give all of it.
  bool decidesCut(const Choice &choice) const { return constraints.stages.empty() || partialCut(choice).has_value(); }

private:
  /// Returns the pinned size of an axis, or all sizes in `all`.
  std::vector<int64_t> candidateSizes(const char *axis, const std::vector<int64_t> &all) const;
  // Whether the trainer can run a mesh, an order of axes, and a cut.
  bool canRun(const AxisSizes &sizes) const;
  bool canOrder(const Choice &layout, const AxisOrder &order) const;
  bool canCut(const Choice &choice) const;
  /// Returns whether every stage of the mesh lies in one device group.
  bool liesInGroups(const AxisSizes &sizes) const;
  std::vector<Choice> uniformCuts(const Choice &execution) const; // where all ranks are alike
  std::vector<Choice> mixedCuts(const Choice &execution) const;   // on a mixed cluster
  /// The consecutive parts [begin, end), to which the constraints leave `layers` layers together.
  struct FreeParts {
    int64_t begin, end, layers;
  };
  /// A cut of which the constraints give some parts.
  struct PartialCut {
    std::vector<int64_t> layers; // of each part; 0 for a part that is left to the search
    std::vector<FreeParts> free;
  };
  /// Returns the part of the cut that the constraints give; nothing when they give all parts or none,
  /// or contradict the choice.
  std::optional<PartialCut> partialCut(const Choice &choice) const;
  std::vector<Choice> partialCuts(const Choice &execution, const PartialCut &cut) const;

  const PlanSearchOptions &options;
  const Plan &constraints;
  const Cluster &cluster;
  const Trainer &trainer;
  const TrainerSpace &trainerSpace;
  int64_t available, layerCount, batch; // ranks, layers of the model, samples of a step
  std::string noMicrobatchesReason;     // as in TrainingJob
  bool sixteenBits, variesStates;       // whether parameters are bf16, and mayKeepStatesOtherwise()
  std::vector<double> flopsOfGroup;     // FLOP/s of a rank of each device group; empty: all ranks are alike
  /// The device group of each stage, by (ranks, stages); nothing when a stage would lie in two groups.
  mutable std::map<std::pair<int64_t, int64_t>, std::optional<std::vector<int>>> groupsOfMesh;
};

} // namespace kerf::plansearch
