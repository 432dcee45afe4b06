// SPDX-License-Identifier: Apache-2.0

// How the ranks of a mesh lie on the nodes of a cluster, as plain data and as a drawing. A node is a unit of the
// cluster's innermost level. Internal to the Report library.
//
//   8 GPUs a node, mesh stage 2 x data 2 x model 4:   model lies inside a node, data inside a node, stage between nodes
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// How the process groups along one mesh axis lie on the cluster.
struct AxisPlacement {
  std::string name;     // of the axis
  int64_t size = 1;     // ranks in a group
  int64_t distance = 1; // difference between the ranks of two neighbours in a group
  int64_t nodes = 1;    // number of nodes that a group spans; the largest of all groups
  std::string links;    // levels of the cluster that a group crosses, e.g. "nvlink, infiniband"
};
/// Returns the placement of each axis of the mesh.
std::vector<AxisPlacement> axisPlacements(const Mesh &mesh, const Cluster &cluster);
/// Returns a placement as text: "inside a node", "one rank in each of 16 nodes", "over 8 nodes, 2 ranks in each".
std::string placementText(const AxisPlacement &place);

/// A kind of node: all nodes whose ranks belong to the same pipeline stages.
struct NodeKind {
  std::vector<int64_t> stages;             // for each rank of the first node: its stage, -1 if the plan does not use it
  int64_t firstRank = 0;                   // first rank of the first node
  int64_t count = 0;                       // number of nodes
  std::string device;                      // name of the nodes' device
  int64_t firstStage = -1, lastStage = -1; // range of the stages of all nodes; -1 if the plan does not use the nodes
};
/// Returns the kinds of nodes in the order of their first ranks. If there are more than `most` kinds, nodes whose
/// stages differ only by their numbers are merged into one kind.
std::vector<NodeKind> nodeKinds(const Mesh &mesh, const Cluster &cluster, size_t most);

/// Returns a drawing with one box for each kind of node. Ranks are coloured by stage, and groups along the innermost
/// axis are outlined.
std::string topologyHtml(const Mesh &mesh, const Cluster &cluster);

} // namespace kerf
