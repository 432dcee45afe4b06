// SPDX-License-Identifier: Apache-2.0
// The placement of pipeline stages on a cluster: the collectives within each stage and the messages between stages. On
// a mixed cluster every stage lies inside one group and uses that group's device and network (docs/cost-model.md).
//
//   groups of 64 and 64 ranks, mesh stage=4, data=4, model=8:   stages 0, 1 in group 0, stages 2, 3 in group 1
#pragma once

#include "kerf/CostModel/Collectives.h"
#include <memory>
#include <optional>

namespace kerf {

/// Predicts the seconds of all communication of a pipeline. Not thread-safe, like CollectiveModel: use one
/// object per thread.
class PipelineModel {
public:
  /// Makes a pipeline whose stages all use the same devices and network, described by `collectives`, which must outlive
  /// this object.
  explicit PipelineModel(const CollectiveModel &collectives);
  /// Places `mesh` on the first ranks of `cluster`, which may be mixed. On a mixed cluster it fails if the outermost
  /// axis of the mesh is not "stage", or if a stage has ranks in two groups.
  static Result<PipelineModel> make(const Mesh &mesh, const Cluster &cluster);
  /// Places a pipeline in which every stage has a mesh of its own. Each mesh describes the complete pipeline, with the
  /// axis "stage" and the same number of ranks. Fails if the cluster is mixed.
  static Result<PipelineModel> make(const std::vector<Mesh> &meshOfStage, const Cluster &cluster);

  /// Returns the mesh of all ranks; if the stages have meshes of their own, the mesh of the first stage.
  const Mesh &mesh() const { return theMesh; }
  /// Returns the number of stages that the model was made for, or nothing if all stages are identical and their number
  /// does not matter.
  std::optional<int64_t> stages() const {
    return groupOfStage.empty() ? std::nullopt : std::optional(static_cast<int64_t>(groupOfStage.size()));
  }
  /// Returns whether messages between some neighbouring stages stay inside a node and others do not.
  bool messagesDiffer() const { return neighbours != nullptr; }
  /// Returns the index of the set of stages to which `stage` belongs; stages of one set have the same device, network
  /// and mesh. The index is always 0 if all stages are identical.
  int groupOf(int64_t stage) const { return groupOfStage.empty() ? 0 : groupOfStage[stage]; }
  /// Returns the model of the collectives within `stage`.
  const CollectiveModel &collectives(int64_t stage) const { return *groups[groupOf(stage)]; }
  /// Returns the device on which each rank of `stage` runs.
  const DeviceSpec &device(int64_t stage) const { return collectives(stage).cluster().device; }
  /// Returns the seconds in which every rank of stage `from` sends `bytes` to its partner in stage `to`. `stageAxes`
  /// are the "stage" axes of the complete mesh; the time is 0 if there are none.
  double sendSeconds(int64_t from, int64_t to, std::span<const AxisRef> stageAxes, double bytes) const;
  /// Returns the sum of the peak FLOP/s of all ranks for products in the element type `dtype`.
  double peakFlopsOfAll(std::string_view dtype) const;

private:
  PipelineModel() = default;
  int64_t ranksOfNode(int64_t stage) const;
  void findNeighbours();
  bool shareNode(int64_t from, int64_t to) const;

  Mesh theMesh;
  /// The first two stages, if their ranks are in one node and those of all stages are not. Null otherwise.
  std::shared_ptr<const CollectiveModel> neighbours;
  /// The model of collectives for each set of stages that have the same device, network and mesh.
  std::vector<std::shared_ptr<const CollectiveModel>> groups;
  /// For each stage, the index in `groups` of its set of stages with the same device, network and mesh: the cluster's
  /// group on a mixed cluster. Empty: all stages are in the single set 0.
  std::vector<int> groupOfStage;
  // The members below are set for mixed clusters only.
  std::vector<int64_t> firstRankOf;  // number of the first rank of each group of the cluster
  std::vector<GroupLink> groupLinks; // links between the groups of the cluster (Cluster::groupLinks)
  int stageAxis = 0;                 // index of the axis "stage" in `theMesh`
};

/// Returns, for each of `stages` equally large stages, the index of the group of the mixed cluster that contains it;
/// stage s consists of the s-th of `stages` equal runs of ranks. The result is empty if the cluster is not mixed. Fails
/// if a stage has ranks in two groups.
Result<std::vector<int>> groupsOfStages(const Cluster &cluster, int64_t stages);

/// Divides `layers` layers among parts in proportion to `weights`, one weight per part. Each part gets its share
/// rounded down, but at least one layer; the remaining layers go to the parts with the largest fractions, the first
/// part first. 10 layers with weights {2, 1, 1} give {5, 3, 2}. There must be at least as many layers as weights.
std::vector<int64_t> cutByWeights(int64_t layers, std::span<const double> weights);

} // namespace kerf
