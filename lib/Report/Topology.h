// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a mesh are in a cluster, as plain data and as a drawing. A node is a unit of a cluster's innermost
// level.
//
//   8 GPUs a node, mesh stage 2 x data 2 x model 4:   model lies inside a node, data inside a node, stage between nodes
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// A group of neighbours along one axis.
struct AxisPlace {
  std::string name;
  int64_t size = 1;
  int64_t distance = 1; // in ranks, between neighbours
  int64_t nodes = 1;    // that a group touches (the most of all groups)
  std::string links;    // levels that it crosses, "nvlink, infiniband"
};
std::vector<AxisPlace> placesOf(const Mesh &mesh, const Cluster &cluster);
/// "inside a node", "one rank in each of 16 nodes", "8 nodes, 2 ranks in each".
std::string placeText(const AxisPlace &place);

/// Nodes whose ranks belong to the same stages.
struct NodeKind {
  std::vector<int64_t> stages; // of each rank; -1: the plan does not use it
  int64_t firstRank = 0;       // of the first such node
  int64_t count = 0;
  std::string device;
  int64_t firstStage = -1, lastStage = -1; // of all nodes that are told as one
};
/// In the order of their first ranks. Above `most` kinds, nodes whose stages differ in their numbers only are one.
std::vector<NodeKind> nodeKinds(const Mesh &mesh, const Cluster &cluster, size_t most);

/// Nodes as boxes, one of each kind, ranks coloured by stage and outlined by the group of the mesh's last axis.
std::string topologyHtml(const Mesh &mesh, const Cluster &cluster);

} // namespace kerf
