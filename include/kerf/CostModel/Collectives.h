// SPDX-License-Identifier: Apache-2.0
// The time that a collective takes between ranks of a mesh on a cluster. The model adds latency and bandwidth terms for
// every network level that the process group crosses. All groups of the mesh communicate at once and share the network
// links of their nodes. Formulas: docs/cost-model.md.
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

/// The placement of a process group in the network, reduced to the numbers that the formulas for collectives need. If
/// the groups of one mesh axis are placed differently, the record describes the slowest group.
struct GroupShape {
  int64_t members = 1;        // ranks of the group
  double launchSeconds = 0;   // seconds from the call of a collective to its first byte
  bool cutIntoPieces = false; // whether long messages are pipelined in small pieces (as NCCL does)
  double reduceShare = 1;     // bytes/s that a rank can sum, divided by the bytes/s that it can move
  /// A network level across which the group communicates.
  struct Crossing {
    bool innermost = false; // whether this level connects single devices
    /// Largest number of units of the next lower level (such as nodes) that the group is spread over within one unit.
    int64_t parts = 1;
    double ringBandwidth = 0;   // bus bandwidth, in bytes/s, that the group's rings reach across this level
    double switchBandwidth = 0; // bus bandwidth, in bytes/s, of all-reduces that switches sum; 0: they cannot
    double memberBandwidth = 0; // bytes/s of one member while every rank of its unit sends across this level
    double outsideShare = 0;    // largest share of the group that one member reaches only across this level
    double latency = 0;         // seconds per message
    bool operator==(const Crossing &) const = default;
  };
  std::vector<Crossing> levels; // the network levels that the group crosses, innermost first
  bool operator==(const GroupShape &) const = default;
};

/// A cache of group shapes, which CollectiveModels of several meshes on the first ranks of one cluster share. The key
/// holds the number of ranks and, for each digit of the group (GroupPlacement.h), the distance between its members and
/// their number.
using GroupShapes = std::map<std::vector<int64_t>, GroupShape>;

/// Returns the cluster as seen by one of `ranks` ranks: where they share the cores and memory of a host, with rates
/// that are divided among them.
std::shared_ptr<const Cluster> clusterOfRanks(Cluster cluster, int64_t ranks);

/// Predicts the seconds of collectives between ranks of one mesh on one cluster. The shape of each process group is
/// computed once and cached, so that a call costs a map look-up and some arithmetic. Not thread-safe: use one object
/// per thread.
class CollectiveModel {
public:
  /// Places rank r of `mesh` on rank r of `cluster`, which must not be mixed and must have at least mesh.ranks() ranks.
  /// `shared` is an optional cache of group shapes that several models of the same cluster share.
  CollectiveModel(Mesh mesh, Cluster cluster, std::shared_ptr<GroupShapes> shared = nullptr);
  /// As above, for a cluster as clusterOfRanks returns it for mesh.ranks() ranks.
  CollectiveModel(Mesh mesh, std::shared_ptr<const Cluster> cluster, std::shared_ptr<GroupShapes> shared);

  /// Returns the seconds of a collective in the process groups along `axes`. `bytes` are the bytes of one rank: its
  /// input for all-reduce, reduce-scatter, all-to-all, permute and send, but its *output* for all-gather. The time is 0
  /// for groups of one rank.
  double seconds(Collective collective, std::span<const AxisRef> axes, double bytes) const;
  /// Returns the seconds of one step of a reshard; this function can serve as a StepPrice. `bytesIn` and `bytesOut` are
  /// the bytes of a rank's local tensor before and after the step. A local slice costs a copy of the elements it keeps.
  double seconds(const ReshardStep &step, double bytesIn, double bytesOut) const;

  /// Returns the placement of the process groups along `axes` in the network.
  const GroupShape &group(std::span<const AxisRef> axes) const;
  /// Returns the mesh whose collectives the model predicts.
  const Mesh &mesh() const { return theMesh; }
  /// Returns the cluster as seen by one rank: if ranks share the cores and memory of a host, rates are already divided.
  const Cluster &cluster() const { return *theCluster; }

private:
  Mesh theMesh;
  std::shared_ptr<const Cluster> theCluster;
  std::shared_ptr<GroupShapes> shared;
  mutable std::map<std::vector<AxisRef>, GroupShape> groups;
};

/// Returns the shape of a process group of two ranks that exchange messages over `link`: one rank is in `from`, the
/// other in `to`, and these are two parts of a mixed cluster (entries of `groups` in its file). `ranksOfNode` is the
/// number of ranks of one node that send at the same time; these ranks share `link.nodeBandwidth`. The fraction of the
/// bandwidth that messages reach is the fraction on the innermost network level between the nodes of one part.
GroupShape groupLinkShape(const Cluster &from, const Cluster &to, const GroupLink &link, int64_t ranksOfNode);

/// Returns the seconds of a collective in a process group of shape `group`. `bytes` are counted
/// as in CollectiveModel::seconds.
double collectiveSeconds(Collective collective, const GroupShape &group, double bytes);

} // namespace kerf
