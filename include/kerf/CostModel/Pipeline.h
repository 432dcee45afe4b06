// SPDX-License-Identifier: Apache-2.0
// Where the stages of a pipeline lie in a cluster: the collectives of each, and messages between them. On a mixed
// cluster every stage is inside one group and has that group's device and links (docs/cost-model.md).
//
//   groups of 64 and 64 ranks, mesh stage=4, data=4, model=8:   stages 0, 1 in group 0, stages 2, 3 in group 1
#pragma once

#include "kerf/CostModel/Collectives.h"
#include <memory>
#include <optional>

namespace kerf {

/// Prices the collectives of a pipeline. One per thread, as CollectiveModel.
class PipelineModel {
public:
  /// All stages on ranks that are alike. `only` must outlive this.
  explicit PipelineModel(const CollectiveModel &only);
  /// On any cluster of at least `mesh.ranks()` ranks. Refuses, of a mixed one, a mesh whose outermost axis is not
  /// "stage" and stages of which some ranks are in one group and some in the next.
  static Result<PipelineModel> make(const Mesh &mesh, const Cluster &cluster);
  /// Stages with meshes of their own, each with the axis "stage" and of as many ranks, on a cluster of one group.
  static Result<PipelineModel> make(const std::vector<Mesh> &meshOfStage, const Cluster &cluster);

  /// Of all ranks; of the first stage where they have meshes of their own.
  const Mesh &mesh() const { return theMesh; }
  /// Stages that it was made for; none where they are all alike.
  std::optional<int64_t> stages() const {
    return groupOfStage.empty() ? std::nullopt : std::optional(static_cast<int64_t>(groupOfStage.size()));
  }
  /// Stages of one have the same device, links and mesh. 0 where all are alike.
  int groupOf(int64_t stage) const { return groupOfStage.empty() ? 0 : groupOfStage[stage]; }
  const CollectiveModel &collectives(int64_t stage) const { return *groups[groupOf(stage)]; }
  const Device &device(int64_t stage) const { return collectives(stage).cluster().device; }
  /// `bytes` that each rank of stage `from` sends to its partner of stage `to`; `stageAxes` of the whole mesh.
  double sendSeconds(int64_t from, int64_t to, std::span<const AxisRef> stageAxes, double bytes) const;
  /// FLOP/s of all ranks at peak.
  double peakFlopsOfAll(std::string_view dtype) const;

private:
  PipelineModel() = default;
  int64_t ranksOfNode(int64_t stage) const;

  Mesh theMesh;
  std::vector<std::shared_ptr<const CollectiveModel>> groups;
  std::vector<int> groupOfStage; // empty: all stages are alike
  // Of a mixed cluster only.
  std::vector<int64_t> firstRankOf; // of each group
  std::vector<Between> between;
  int stageAxis = 0;
};

/// The group that `stages` stages of alike size are in, one entry for each, empty on a cluster of one group: as
/// PipelineModel::make, for who needs no more than that. Stage s has the s-th of `stages` equal runs of ranks.
Result<std::vector<int>> groupsOfStages(const Cluster &cluster, int64_t stages);

/// `layers` (at least as many as weights) dealt to parts in proportion to their weights: each the whole part of its
/// share, at least one; what is left to the largest fractions, the first part first. 10 by {2, 1, 1} is {5, 3, 2}.
std::vector<int64_t> cutByWeights(int64_t layers, std::span<const double> weights);

} // namespace kerf
