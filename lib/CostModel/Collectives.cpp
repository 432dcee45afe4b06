// SPDX-License-Identifier: Apache-2.0
// Ring and tree costs over a hierarchy of links: alpha-beta as in Thakur, Rabenseifner & Gropp, "Optimization of
// collective communication operations in MPICH" (2005); bus bandwidth as nccl-tests' PERFORMANCE.md defines it.
#include "kerf/CostModel/Collectives.h"
#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

using namespace kerf;

namespace {

// Share of a link's figure that NCCL reaches with long messages (rows in docs/cost-model.md). Inside a node: A100
// NVLink 230 of 300 GB/s, H100 ring 370 of 450, V100 134 of 150. Across: DGX A100 over 8 x HDR 192 of 200, DGX H100
// over 8 x NDR 380 of 400. Threads on one machine: the constant of ThisMachine.cpp is what a copy reaches already.
constexpr double kInnermostEfficiency = 0.85;
constexpr double kNetworkEfficiency = 0.95;
// The same where several groups, or all ranks with messages of their own, share a node's cards: their flows are not
// coordinated and meet in cards and switches. 2 nodes of 8 A100, 8 pairs across at once (Galvatron): 8.1 GB/s each by
// all-reduce and 7.7-8.8 by sends, of the 12.5 that four 200 Gb/s cards have for each.
constexpr double kSharedNetworkEfficiency = 0.65;
constexpr double kThreadLinkEfficiency = 1.0;
// A group with some but not all of a node's devices cannot bind all their cards into its rings: on the same machines
// all-reduces of groups of 1, 2 and 4 devices a node, all devices busy, reach 8.1, 10.8 and 11.9 GB/s over the network.
constexpr double kPartGroupCards = 4.0 / 3;

/// Members in ascending order.
struct Groups {
  std::vector<std::vector<int64_t>> members;
};

Groups allGroups(const Mesh &mesh, std::span<const AxisRef> axes) {
  Groups groups;
  std::vector<char> seen(mesh.ranks(), 0);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (seen[rank])
      continue;
    groups.members.push_back(groupOf(mesh, axes, rank));
    std::sort(groups.members.back().begin(), groups.members.back().end());
    for (int64_t member : groups.members.back())
      seen[member] = 1;
  }
  return groups;
}

/// A unit of some devices that members of a group lie in.
struct Presence {
  int64_t unit = 0, members = 0;
  double nodes = 0;                     // of the unit, that have members
  int64_t parts = 0, membersWithin = 0; // units and members that the group has in the larger unit around this one
};

/// Where the group lies in units of `below` devices, inside units of `within`.
void appendPresences(const std::vector<int64_t> &group, int64_t node, int64_t below, int64_t within,
                     std::vector<Presence> &into) {
  const size_t begin = into.size();
  const int64_t nodeDevices = std::min(node, below);
  int64_t lastNode = -1;
  for (int64_t rank : group) {
    if (into.size() == begin || into.back().unit != rank / below)
      into.push_back({rank / below});
    ++into.back().members;
    if (rank / nodeDevices != lastNode)
      into.back().nodes += 1;
    lastNode = rank / nodeDevices;
  }
  for (size_t first = begin, last; first < into.size(); first = last) {
    int64_t members = 0;
    for (last = first; last < into.size() && into[last].unit * below / within == into[first].unit * below / within;
         ++last)
      members += into[last].members;
    for (size_t i = first; i < last; ++i) {
      into[i].parts = static_cast<int64_t>(last - first);
      into[i].membersWithin = members;
    }
  }
}

/// Shares of a link's figure that are reached: by a group that has it alone, and by many.
struct LinkShares {
  double one, many;
};

/// How the groups cross the border between units of `below` devices inside units of `within` devices: the worst
/// group's.
GroupShape::Crossing crossingAt(const Groups &groups, const Level &level, int64_t node, int64_t below, int64_t within,
                                LinkShares shares) {
  GroupShape::Crossing worst;
  worst.innermost = below == 1;
  worst.latency = level.latency;
  double mostLeaving = 1;
  std::vector<Presence> presences;
  std::vector<size_t> ends; // of each group in them
  for (const std::vector<int64_t> &group : groups.members) {
    appendPresences(group, node, below, within, presences);
    ends.push_back(presences.size());
  }
  int64_t units = 0;
  for (const Presence &its : presences)
    units = std::max(units, its.unit + 1);
  // Who shares a unit's way out: groups (one flow each in a ring) and ranks (all-to-all, permute).
  std::vector<int64_t> groupsLeaving(units, 0), ranksLeaving(units, 0);
  for (const Presence &its : presences)
    if (its.parts > 1)
      ++groupsLeaving[its.unit], ranksLeaving[its.unit] += its.members;
  bool first = true;
  for (size_t g = 0; g < ends.size(); ++g) {
    auto size = static_cast<double>(groups.members[g].size());
    for (size_t i = g == 0 ? 0 : ends[g - 1]; i < ends[g]; ++i) {
      const auto &[unit, members, nodes, parts, membersWithin] = presences[i];
      if (parts <= 1)
        continue;
      // Rings leave a unit through one of its nodes: there are as many as the group has members there.
      auto count = std::ceil(static_cast<double>(members) / nodes);
      double ring = std::min(count * level.bandwidth, level.nodeBandwidth / static_cast<double>(groupsLeaving[unit]));
      if (below == node && members > 1 && members < below && shares.many != shares.one)
        ring = std::min(ring, kPartGroupCards * std::min(level.bandwidth, level.nodeBandwidth /
                                                                              static_cast<double>(ranksLeaving[unit])));
      ring *= groupsLeaving[unit] > 1 ? shares.many : shares.one;
      double member = std::min(level.bandwidth, level.nodeBandwidth / static_cast<double>(ranksLeaving[unit]));
      member *= ranksLeaving[unit] > 1 ? shares.many : shares.one;
      double outside = static_cast<double>(membersWithin - members) / size;
      worst.parts = std::max(worst.parts, parts);
      mostLeaving = std::max(mostLeaving, static_cast<double>(groupsLeaving[unit]));
      worst.ringBandwidth = first ? ring : std::min(worst.ringBandwidth, ring);
      worst.memberBandwidth = first ? member : std::min(worst.memberBandwidth, member);
      worst.outsideShare = std::max(worst.outsideShare, outside);
      first = false;
    }
  }
  // A switch is faster than a ring when all of the level's units take part (NCCL's tables: 8 GPUs, not 2 or 4); groups
  // that leave one unit share it.
  if (worst.parts == level.size)
    worst.switchBandwidth = worst.innermost ? level.switchBandwidth : level.switchBandwidth / mostLeaving;
  return worst;
}

GroupShape shapeOf(const Mesh &mesh, const Cluster &cluster, std::span<const AxisRef> axes) {
  GroupShape shape;
  shape.members = ways(axes);
  if (shape.members <= 1)
    return shape;
  bool cpu = cluster.device.kind == "cpu";
  shape.cutIntoPieces = !cpu;
  shape.reduceShare = cluster.device.curves.reduceShare;
  shape.launchSeconds = cluster.device.curves.collectiveSeconds;
  Groups groups = allGroups(mesh, axes);
  int64_t below = 1;
  bool lowestLevel = true;
  for (const Level &level : cluster.levels) {
    int64_t within = below * level.size;
    // Above the first network level the cluster file says what is left when units share it.
    LinkShares shares = cpu           ? LinkShares{kThreadLinkEfficiency, kThreadLinkEfficiency}
                        : below == 1  ? LinkShares{kInnermostEfficiency, kInnermostEfficiency}
                        : lowestLevel ? LinkShares{kNetworkEfficiency, kSharedNetworkEfficiency}
                                      : LinkShares{kNetworkEfficiency, kNetworkEfficiency};
    lowestLevel = lowestLevel && below == 1;
    GroupShape::Crossing crossing = crossingAt(groups, level, cluster.levels.front().size, below, within, shares);
    if (crossing.parts > 1)
      shape.levels.push_back(crossing);
    below = within;
  }
  return shape;
}

/// Small rings reach less of the links inside a node (NCCL on A100, H100: all-gather among 2 GPUs 0.75 of that among 8,
/// among 4 0.93; all-reduce 0.88 and 0.97): 1 - 1 / (2 n), and for the longer train of an all-reduce 1 - 1 / (4 n).
double smallRingShare(const GroupShape &group, const GroupShape::Crossing &level, double trains) {
  return group.cutIntoPieces && level.innermost ? 1 - 1 / (2 * trains * static_cast<double>(level.parts)) : 1;
}

/// Seconds on the wire of a ring through all members, which is as fast as its narrowest border.
double ringSeconds(const GroupShape &group, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const GroupShape::Crossing &level : group.levels)
    least = std::min(least, level.ringBandwidth * smallRingShare(group, level, 1));
  auto n = static_cast<double>(group.members);
  return (n - 1) / n * bytes / least;
}

/// The same of an all-reduce: sums are made inside a node first, so that the network carries what a ring of the nodes
/// does (NCCL's trees between nodes end in a chain inside each). Switches that add can be faster than a ring.
double reduceSeconds(const GroupShape &group, double bytes) {
  double members = static_cast<double>(group.members), nodes = 1, slowest = 0;
  for (const GroupShape::Crossing &level : group.levels)
    nodes *= level.innermost ? 1 : static_cast<double>(level.parts);
  for (const GroupShape::Crossing &level : group.levels) {
    double units = level.innermost ? members : std::min(nodes, members);
    double bandwidth = std::max(level.ringBandwidth * smallRingShare(group, level, 2), level.switchBandwidth);
    slowest = std::max(slowest, (1 + 1 / group.reduceShare) * (units - 1) / units * bytes / bandwidth);
  }
  return slowest;
}

/// Hops, one after the other, times their latency. A ring passes all members: each border between units once, and
/// between members of a unit as often as there are members. A tree passes a node's members and then its depth over
/// nodes (NCCL's double binary trees, Jeaugey 2019).
enum class Hops { Ring, Tree };
double hopSeconds(const GroupShape &group, Hops hops) {
  double seconds = 0;
  double outer = 1; // units that the ring passes, of the level above
  for (auto level = group.levels.rbegin(); level != group.levels.rend(); ++level) {
    double units = outer * static_cast<double>(level->parts);
    auto depth = static_cast<double>(std::bit_width(static_cast<uint64_t>(level->parts - 1)));
    double inside = static_cast<double>(level->parts - 1);
    // Groups may lie differently and `parts` are the most of any: no more hops than members, no fewer than inside.
    double ring = std::max(inside, std::min(units, static_cast<double>(group.members)) - outer);
    seconds += level->latency * (hops == Hops::Ring ? ring : level->innermost ? inside : depth);
    outer = units;
  }
  return seconds;
}

/// A message of `seconds` on the wire through hops of `latency` in all. It is cut into pieces: few large ones fill the
/// way late, many small ones pay each hop's start often. The best cut takes (sqrt(latency) + sqrt(seconds))^2
/// (Thakur, Rabenseifner & Gropp 2005, pipelined algorithms); between threads nothing is cut. `ways` 2: the pieces of
/// an all-reduce go round twice, and the second time nothing has to fill.
double pipelined(const GroupShape &group, double latency, double seconds, int ways = 1) {
  return ways * latency + seconds + (group.cutIntoPieces ? 2 * std::sqrt(latency * seconds) : 0);
}

} // namespace

double kerf::collectiveSeconds(Collective collective, const GroupShape &group, double bytes) {
  if (group.members <= 1 || group.levels.empty())
    return 0;
  switch (collective) {
  case Collective::AllReduce: // reduce-scatter, then all-gather
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Tree), reduceSeconds(group, bytes), 2);
  case Collective::AllGather:
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Ring), ringSeconds(group, bytes));
  case Collective::ReduceScatter:
    bytes /= group.reduceShare;
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Ring), ringSeconds(group, bytes));
  case Collective::AllToAll: { // each level carries what goes across it; they run side by side
    double slowest = 0;
    for (const GroupShape::Crossing &level : group.levels)
      slowest = std::max(slowest, level.outsideShare * bytes / level.memberBandwidth);
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Tree), slowest);
  }
  case Collective::Permute: // someone's partner is across the outermost border
  case Collective::Send: {
    double slowest = 0;
    for (const GroupShape::Crossing &level : group.levels)
      slowest = std::max(slowest, pipelined(group, level.latency, bytes / level.memberBandwidth));
    return group.launchSeconds + slowest;
  }
  }
  return 0;
}

GroupShape kerf::shapeBetween(const Cluster &from, const Cluster &to, const Between &between, int64_t ranksOfNode) {
  bool cpu = from.device.kind == "cpu" && to.device.kind == "cpu";
  GroupShape shape;
  shape.members = 2;
  shape.cutIntoPieces = !cpu;
  shape.launchSeconds = std::max(from.device.curves.collectiveSeconds, to.device.curves.collectiveSeconds);
  GroupShape::Crossing crossing;
  crossing.parts = 2;
  crossing.latency = between.latency;
  crossing.memberBandwidth = between.bandwidth;
  if (between.nodeBandwidth > 0)
    crossing.memberBandwidth = std::min(between.bandwidth, between.nodeBandwidth / static_cast<double>(ranksOfNode));
  crossing.memberBandwidth *= cpu               ? kThreadLinkEfficiency
                              : ranksOfNode > 1 ? kSharedNetworkEfficiency
                                                : kNetworkEfficiency;
  shape.levels = {crossing};
  return shape;
}

CollectiveModel::CollectiveModel(Mesh mesh, Cluster cluster, std::shared_ptr<GroupShapes> shared)
    : theMesh(std::move(mesh)), theCluster(std::move(cluster)), shared(std::move(shared)) {
  assert(theMesh.ranks() <= theCluster.ranks() && !theCluster.mixed());
  // Ranks that share a host's cores take turns, when they compute and when they move bytes.
  if (double turns = turnsOf(theCluster.device, theMesh.ranks()); turns > 1)
    for (Level &level : theCluster.levels) {
      level.bandwidth /= turns;
      level.nodeBandwidth /= turns;
      level.latency *= turns;
    }
  theCluster.device = deviceAmong(theCluster.device, theMesh.ranks());
}

const GroupShape &CollectiveModel::group(std::span<const AxisRef> axes) const {
  std::vector<AxisRef> key(axes.begin(), axes.end());
  std::sort(key.begin(), key.end()); // the order of axes orders the ring's members, not where they lie
  auto it = groups.find(key);
  if (it != groups.end())
    return it->second;
  if (!shared)
    return groups.emplace(key, shapeOf(theMesh, theCluster, key)).first->second;
  std::vector<int64_t> lie = {theMesh.ranks()};
  for (const AxisRef &ref : key) {
    int64_t distance = theMesh.axes[ref.axis].size / (ref.before * ref.size);
    for (size_t inner = ref.axis + 1; inner < theMesh.axes.size(); ++inner)
      distance *= theMesh.axes[inner].size;
    lie.push_back(distance);
    lie.push_back(ref.size);
  }
  auto known = shared->find(lie);
  if (known == shared->end())
    known = shared->emplace(lie, shapeOf(theMesh, theCluster, key)).first;
  return groups.emplace(key, known->second).first->second;
}

double CollectiveModel::seconds(Collective collective, std::span<const AxisRef> axes, double bytes) const {
  return collectiveSeconds(collective, group(axes), bytes);
}

double CollectiveModel::seconds(const ReshardStep &step, double bytesIn, double bytesOut) const {
  if (const CollectiveOp *op = collectiveOf(step.kind))
    return seconds(op->price, step.axes, op->pricedByResult ? bytesOut : bytesIn);
  Work copy; // what is kept of the local tensor is read and written
  copy.kernelClass = KernelClass::Movement;
  copy.bytes = 2 * bytesOut;
  return computeSeconds(theCluster.device, copy);
}
