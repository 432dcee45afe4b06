// SPDX-License-Identifier: Apache-2.0
// Seconds of a collective between ranks of a mesh on a cluster: latency and bandwidth at the levels that the group
// crosses, with all groups of the mesh running at once and sharing each node's way out. Formulas: docs/cost-model.md.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Sharding/Reshard.h"
#include "kerf/Sharding/Sharding.h"
#include "kerf/Support/Collectives.h"
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace kerf {

/// Where the groups of some mesh axes lie in the cluster; what the formulas need of it.
struct GroupShape {
  int64_t members = 1;
  double launchSeconds = 0;   // from the call to the first byte
  bool cutIntoPieces = false; // long messages travel as a train of pieces
  double reduceShare = 1;     // bytes that are added over bytes that are moved, in a second
  struct Crossing {
    bool innermost = false;     // the level that joins single devices
    int64_t parts = 1;          // units of the level below among which the group is spread, within one unit (the most)
    double ringBandwidth = 0;   // bytes/s that the group can carry across this level's border, as bus bandwidth
    double switchBandwidth = 0; // the same for all-reduces that switches add, 0 where they cannot
    double memberBandwidth = 0; // bytes/s of one member when every rank of the unit sends across at once
    double outsideShare = 0;    // of the group: members across this border, seen from one member (the most)
    double latency = 0;         // seconds
    bool operator==(const Crossing &) const = default;
  };
  std::vector<Crossing> levels; // only those that the group crosses, inside out
  bool operator==(const GroupShape &) const = default;
};

/// Shapes of groups that models of several meshes on the first ranks of one cluster share: by the number of ranks, and
/// distance and number of the members along each axis.
using GroupShapes = std::map<std::vector<int64_t>, GroupShape>;

/// Prices collectives of one mesh on one cluster. Keeps the shape of each group it has seen: a call is a map look-up
/// and some arithmetic. One per thread.
class CollectiveModel {
public:
  /// `mesh.ranks()` must be at most `cluster.ranks()`: rank r of the mesh is rank r of the cluster.
  CollectiveModel(Mesh mesh, Cluster cluster, std::shared_ptr<GroupShapes> shared = nullptr);

  /// `bytes` on one rank: all-reduce and reduce-scatter the input, all-gather the *output*, all-to-all, permute and
  /// send what one rank holds before. A group of one costs nothing.
  double seconds(Collective collective, std::span<const AxisRef> axes, double bytes) const;
  /// The price of a reshard step (fits StepPrice). LocalSlice costs a copy of what is kept.
  double seconds(const ReshardStep &step, double bytesIn, double bytesOut) const;

  const GroupShape &group(std::span<const AxisRef> axes) const;
  const Mesh &mesh() const { return theMesh; }
  const Cluster &cluster() const { return theCluster; }

private:
  Mesh theMesh;
  Cluster theCluster;
  std::shared_ptr<GroupShapes> shared;
  mutable std::map<std::vector<AxisRef>, GroupShape> groups;
};

/// The way from one group of a mixed cluster to another, for messages of which a node has `ranksOfNode` at a time: as
/// the first network level inside a group.
GroupShape shapeBetween(const Cluster &from, const Cluster &to, const Between &between, int64_t ranksOfNode);

/// The formulas alone.
double collectiveSeconds(Collective collective, const GroupShape &group, double bytes);

} // namespace kerf
