// SPDX-License-Identifier: Apache-2.0
// The plans that are searched (docs/search.md, "The whole plan"), as a tree: each level decides some more.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

#include <array>
#include <optional>

namespace kerf::plansearch {

/// Sizes of the axes, in the order of kPlanAxes.
struct Frame {
  int64_t stage = 1, data = 1, context = 1, expert = 1, model = 1;
  int64_t ranks() const { return stage * data * context * expert * model; }
  std::array<int64_t, std::size(kPlanAxes)> sizes() const { return {stage, data, context, expert, model}; }
};

/// Axes by their index in kPlanAxes, the outermost first.
using AxisOrder = std::array<int8_t, std::size(kPlanAxes)>;

/// A plan as far as it is decided. Millions are made: no allocations.
struct Choice {
  enum class Level : int8_t { Mesh, Layout, Order, Execution, Cut, Ready };
  Level level = Level::Mesh;
  Frame frame;
  // Layout
  int64_t microbatch = 0;
  bool sequenceParallel = false, solved = false;
  bool ulysses = false; // of a context of several ranks
  AxisOrder order = {0, 1, 2, 3, 4};
  // Execution
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t chunks = 1;
  int optimizerSharding = 0; // where it is not pinned
  int64_t shardingRanks = 0; // that share states; 0: all that hold the same parameters
  // Cut: layers of the first and of the last part; those between share the rest evenly, the first ones one more.
  int64_t first = 0, last = 0;
  std::array<int32_t, kMostPlannedGroups> ofGroup = {}; // on a mixed cluster: layers on the stages of each group
  // Ready: known to fit where the schedule's order is known
  int recompute = -1; // number in the search's list of recomputations
  /// Of a search that asks several questions at once (Otherwise.h): those that plans below this choice can answer.
  uint16_t questions = 1;
};

/// The groups of a mixed cluster, or the cluster.
std::vector<const Cluster *> alikeParts(const Cluster &cluster);

class Space {
public:
  /// `layers` of the model that can be cut; `given` says what stays.
  Space(const PlanSearchOptions &options, const TrainingJob &job, const Cluster &cluster, int64_t layers);

  /// Refuses constraints that leave nothing.
  Result<std::vector<Choice>> meshes() const;
  std::vector<Choice> layouts(const Choice &mesh) const;
  /// Returns whether the space leaves a layout out because a larger "data" does the same: with data x g, context / g
  /// and microbatch / g, g a factor that the last two share, each rank computes and sends as much, and less between
  /// attentions. Where one of the three is pinned nothing is left out.
  bool dataDoesTheSame(const Choice &layout) const;
  std::vector<AxisOrder> orders(const Choice &layout) const;
  std::vector<Choice> executions(const Choice &order) const;
  std::vector<Choice> cuts(const Choice &execution) const;
  /// How many ranks may share optimizer states; 0: all that hold the same parameters.
  std::vector<int64_t> shardingRanks(const Mesh &mesh) const;

  int64_t globalBatch() const { return batch; }
  int64_t layers() const { return layerCount; }
  /// Of the axes that are larger than 1.
  Mesh mesh(const Choice &choice) const;
  ScheduleOptions schedule(const Choice &choice) const;
  /// Microbatches of one data group.
  int64_t microbatches(const Choice &choice) const {
    return batch / (choice.frame.data * choice.frame.expert * choice.microbatch);
  }
  /// What is decided down to the cut, on top of the constraints.
  Plan plan(const Choice &choice) const;
  /// The group in which each stage lies; empty: the mesh is in one group. Of meshes of the space.
  const std::vector<int> &groupsOf(const Frame &frame) const;
  /// Layers of each part; needs all that is decided at Level::Cut.
  std::vector<int64_t> layersOfParts(const Choice &choice) const;
  /// Returns whether the space decides the cut of the choice's parts, or a part of it.
  bool decidesCut(const Choice &choice) const { return given.stages.empty() || partialCut(choice).has_value(); }

private:
  std::vector<int64_t> sizes(const char *axis, const std::vector<int64_t> &all) const;
  // Each returns whether the trainer can run the choice.
  bool canRun(const Frame &frame) const;
  bool canOrder(const Choice &layout, const AxisOrder &order) const;
  bool canCut(const Choice &choice) const;
  bool liesInGroups(const Frame &frame) const;
  std::vector<std::pair<int, int64_t>> shardings(const Choice &order) const;
  std::vector<Choice> alikeCuts(const Choice &execution) const; // on ranks that are alike
  std::vector<Choice> mixedCuts(const Choice &execution) const;
  /// Runs of parts, one after the other, whose layers the constraints leave open together.
  struct FreeParts {
    int64_t begin, end, layers; // parts [begin, end) hold so many layers
  };
  struct PartialCut {
    std::vector<int64_t> layers; // of each part; of a free one 0
    std::vector<FreeParts> free;
  };
  /// The cut of a choice's parts as far as `stages` of the constraints tell it, where they tell some parts and leave
  /// the others open. Nothing where they tell all or none, or what cannot be.
  std::optional<PartialCut> partialCut(const Choice &choice) const;
  std::vector<Choice> partialCuts(const Choice &execution, const PartialCut &cut) const;

  const PlanSearchOptions &options;
  const Plan &given;
  const Cluster &cluster;
  const Trainer &trainer;
  const TrainerSpace &can;
  int64_t available, layerCount, batch;
  std::string wholeGroups;          // TrainingJob's
  std::vector<double> flopsOfGroup; // of one rank; empty: all ranks are alike
  /// By ranks and stages; none: stages would lie across groups.
  mutable std::map<std::pair<int64_t, int64_t>, std::optional<std::vector<int>>> groupsOfMesh;
};

} // namespace kerf::plansearch
