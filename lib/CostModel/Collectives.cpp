// SPDX-License-Identifier: Apache-2.0
// Costs of ring and tree algorithms on a hierarchy of network links: the latency-bandwidth model of Thakur,
// Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH" (2005), with bus bandwidth as
// defined in nccl-tests' PERFORMANCE.md.
#include "kerf/CostModel/Collectives.h"
#include "GroupPlacement.h"
#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::cost;

namespace {

// Shares of a link's nominal bandwidth that NCCL reaches with long messages (rows in docs/cost-model.md). Inside a
// node: A100 NVLink 230 of 300 GB/s, H100 ring 370 of 450, V100 134 of 150. Between nodes: DGX A100 over 8 x HDR 192 of
// 200, DGX H100 over 8 x NDR 380 of 400. Between threads of one machine the constant of ThisMachine.cpp is already what
// a copy reaches.
constexpr double kInnermostEfficiency = 0.85;
constexpr double kNetworkEfficiency = 0.95;
// The share between nodes if several groups, or all ranks with messages of their own, use a node's network cards: their
// flows are not coordinated and collide in cards and switches. 2 nodes of 8 A100 with 8 concurrent pairs (Galvatron)
// reach 8.1 GB/s each by all-reduce and 7.7-8.8 by sends, of the 12.5 that four 200 Gb/s cards provide for each.
constexpr double kSharedNetworkEfficiency = 0.65;
constexpr double kThreadLinkEfficiency = 1.0;
// The rate at which a core sends and receives messages over the system's network, as a share of its memory bandwidth
// (an estimate): pairs of ranks on a core of about 12 GB/s move 0.35 GB/s each through links without a limit, in both
// directions.
constexpr double kMessageShare = 1.0 / 16;
// A group with some but not all devices of a node cannot use all network cards in its rings. On the same machines, with
// all devices busy, all-reduces of groups of 1, 2 and 4 devices per node reach 8.1, 10.8 and 11.9 GB/s between nodes.
constexpr double kPartGroupCards = 4.0 / 3;

/// Shares of a link's nominal bandwidth that are reached by a group that has the link alone, and by many groups.
struct LinkShares {
  double one, many;
};

/// Returns how groups cross a level, from their members in its units; the result describes the slowest group.
GroupShape::Crossing crossingAt(std::span<const UnitMembers> units, const Level &level, const LevelUnits &devices,
                                int64_t groupSize, LinkShares shares) {
  GroupShape::Crossing worst;
  worst.innermost = devices.below == 1;
  worst.latency = level.latency;
  double mostLeaving = 1;
  bool first = true;
  for (const auto &[members, nodes, parts, membersWithin, groupsLeaving, ranksLeaving] : units) {
    if (parts <= 1)
      continue;
    // A ring leaves a unit through one of its nodes; a group has as many rings as it has members in the node.
    auto count = std::ceil(static_cast<double>(members) / static_cast<double>(nodes));
    double ring = std::min(count * level.bandwidth, level.nodeBandwidth / static_cast<double>(groupsLeaving));
    if (devices.below == devices.node && members > 1 && members < devices.below && shares.many != shares.one)
      ring = std::min(ring, kPartGroupCards *
                                std::min(level.bandwidth, level.nodeBandwidth / static_cast<double>(ranksLeaving)));
    ring *= groupsLeaving > 1 ? shares.many : shares.one;
    double member = std::min(level.bandwidth, level.nodeBandwidth / static_cast<double>(ranksLeaving));
    member *= ranksLeaving > 1 ? shares.many : shares.one;
    double outside = static_cast<double>(membersWithin - members) / static_cast<double>(groupSize);
    worst.parts = std::max(worst.parts, parts);
    mostLeaving = std::max(mostLeaving, static_cast<double>(groupsLeaving));
    worst.ringBandwidth = first ? ring : std::min(worst.ringBandwidth, ring);
    worst.memberBandwidth = first ? member : std::min(worst.memberBandwidth, member);
    worst.outsideShare = std::max(worst.outsideShare, outside);
    first = false;
  }
  // A switch is faster than a ring if all units of the level take part (NCCL's tables: 8 GPUs, not 2 or 4). Groups that
  // leave one unit share the switch.
  if (worst.parts == level.size)
    worst.switchBandwidth = worst.innermost ? level.switchBandwidth : level.switchBandwidth / mostLeaving;
  return worst;
}

GroupShape shapeOf(std::span<const RankDigit> digits, int64_t ranks, const Cluster &cluster) {
  GroupShape shape;
  for (const RankDigit &digit : digits)
    shape.members *= digit.size;
  if (shape.members <= 1)
    return shape;
  bool cpu = cluster.device.kind == "cpu";
  shape.cutIntoPieces = !cpu;
  shape.reduceShare = cluster.device.curves.reduceShare;
  shape.launchSeconds = cluster.device.curves.collectiveSeconds;
  LevelUnits devices{cluster.levels.front().size, 1, 1};
  bool lowestLevel = true;
  for (const Level &level : cluster.levels) {
    devices.within = devices.below * level.size;
    // Above the first network level, the cluster file states the bandwidth that remains when units share it.
    LinkShares shares = cpu                  ? LinkShares{kThreadLinkEfficiency, kThreadLinkEfficiency}
                        : devices.below == 1 ? LinkShares{kInnermostEfficiency, kInnermostEfficiency}
                        : lowestLevel        ? LinkShares{kNetworkEfficiency, kSharedNetworkEfficiency}
                                             : LinkShares{kNetworkEfficiency, kNetworkEfficiency};
    lowestLevel = lowestLevel && devices.below == 1;
    GroupShape::Crossing crossing =
        crossingAt(unitsOfGroups(digits, ranks, devices), level, devices, shape.members, shares);
    if (crossing.parts > 1)
      shape.levels.push_back(crossing);
    devices.below = devices.within;
  }
  return shape;
}

/// Returns the share of the bandwidth inside a node that a small ring reaches (NCCL on A100 and H100, relative to 8
/// GPUs: all-gather among 2 GPUs 0.75, among 4 0.93; all-reduce 0.88 and 0.97): 1 - 1 / (2 n), and 1 - 1 / (4 n) for
/// the two passes of an all-reduce.
double smallRingShare(const GroupShape &group, const GroupShape::Crossing &level, double trains) {
  return group.cutIntoPieces && level.innermost ? 1 - 1 / (2 * trains * static_cast<double>(level.parts)) : 1;
}

/// Returns the seconds on the wire of a ring through all members; the slowest level determines its speed.
double ringSeconds(const GroupShape &group, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const GroupShape::Crossing &level : group.levels)
    least = std::min(least, level.ringBandwidth * smallRingShare(group, level, 1));
  auto n = static_cast<double>(group.members);
  return (n - 1) / n * bytes / least;
}

/// Returns the seconds on the wire of an all-reduce. It sums inside each node first, so that the network carries only
/// what a ring of the nodes does (NCCL's trees between nodes end in a chain inside each). Switches that sum can be
/// faster than a ring.
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

/// Returns the latency of all sequential hops. A ring passes all members: each border between units once, and inside a
/// unit from member to member. A tree passes the members of a node, and then its depth over nodes (NCCL's double binary
/// trees, Jeaugey 2019).
enum class Hops { Ring, Tree };
double hopSeconds(const GroupShape &group, Hops hops) {
  double seconds = 0;
  double outer = 1; // units of the level above that the ring passes
  for (auto level = group.levels.rbegin(); level != group.levels.rend(); ++level) {
    double units = outer * static_cast<double>(level->parts);
    auto depth = static_cast<double>(std::bit_width(static_cast<uint64_t>(level->parts - 1)));
    double inside = static_cast<double>(level->parts - 1);
    // Groups may be placed differently, and `parts` is the largest number of any group; the hops are at
    // most the members.
    double ring = std::max(inside, std::min(units, static_cast<double>(group.members)) - outer);
    seconds += level->latency * (hops == Hops::Ring ? ring : level->innermost ? inside : depth);
    outer = units;
  }
  return seconds;
}

/// Returns the seconds of a message that needs `seconds` on the wire and passes hops with a total latency of `latency`.
/// The message is cut into pieces: few large pieces fill the pipeline late, many small ones pay each hop's start often.
/// The best cut takes (sqrt(latency) + sqrt(seconds))^2 (Thakur, Rabenseifner & Gropp 2005, pipelined algorithms).
/// Messages between threads are not cut. `rounds` is 2 for an all-reduce, whose pieces travel twice; the second time
/// the pipeline is already full.
double pipelined(const GroupShape &group, double latency, double seconds, int rounds = 1) {
  return rounds * latency + seconds + (group.cutIntoPieces ? 2 * std::sqrt(latency * seconds) : 0);
}

} // namespace

double kerf::collectiveSeconds(Collective collective, const GroupShape &group, double bytes) {
  if (group.members <= 1 || group.levels.empty())
    return 0;
  switch (collective) {
  case Collective::AllReduce: // a reduce-scatter, then an all-gather
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Tree), reduceSeconds(group, bytes), 2);
  case Collective::AllGather:
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Ring), ringSeconds(group, bytes));
  case Collective::ReduceScatter:
    bytes /= group.reduceShare;
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Ring), ringSeconds(group, bytes));
  case Collective::AllToAll: { // the levels carry their shares at the same time
    double slowest = 0;
    for (const GroupShape::Crossing &level : group.levels)
      slowest = std::max(slowest, level.outsideShare * bytes / level.memberBandwidth);
    return group.launchSeconds + pipelined(group, hopSeconds(group, Hops::Tree), slowest);
  }
  case Collective::Permute: // at least one partner is beyond the outermost level
  case Collective::Send: {
    double slowest = 0;
    for (const GroupShape::Crossing &level : group.levels)
      slowest = std::max(slowest, pipelined(group, level.latency, bytes / level.memberBandwidth));
    return group.launchSeconds + slowest;
  }
  }
  return 0;
}

GroupShape kerf::groupLinkShape(const Cluster &from, const Cluster &to, const GroupLink &link, int64_t ranksOfNode) {
  bool cpu = from.device.kind == "cpu" && to.device.kind == "cpu";
  GroupShape shape;
  shape.members = 2;
  shape.cutIntoPieces = !cpu;
  shape.launchSeconds = std::max(from.device.curves.collectiveSeconds, to.device.curves.collectiveSeconds);
  GroupShape::Crossing crossing;
  crossing.parts = 2;
  crossing.latency = link.latency;
  crossing.memberBandwidth = link.bandwidth;
  if (link.nodeBandwidth > 0)
    crossing.memberBandwidth = std::min(link.bandwidth, link.nodeBandwidth / static_cast<double>(ranksOfNode));
  crossing.memberBandwidth *= cpu               ? kThreadLinkEfficiency
                              : ranksOfNode > 1 ? kSharedNetworkEfficiency
                                                : kNetworkEfficiency;
  shape.levels = {crossing};
  return shape;
}

std::shared_ptr<const Cluster> kerf::clusterOfRanks(Cluster cluster, int64_t ranks) {
  // Ranks that oversubscribe a host's cores compute and move bytes more slowly. A link that is slower than a core is
  // not shared: it keeps its bandwidth as long as the rank's share of the core moves as many bytes.
  if (double factor = oversubscription(cluster.device, ranks); factor > 1) {
    const double core = kMessageShare * cluster.device.memoryBandwidth;
    for (Level &level : cluster.levels) {
      double slowdown = std::clamp(factor * level.bandwidth / core, 1.0, factor);
      level.bandwidth /= slowdown;
      level.nodeBandwidth /= slowdown;
      level.latency *= factor;
    }
  }
  cluster.device = sharedDevice(cluster.device, ranks);
  return std::make_shared<const Cluster>(std::move(cluster));
}

CollectiveModel::CollectiveModel(Mesh mesh, std::shared_ptr<const Cluster> cluster, std::shared_ptr<GroupShapes> shared)
    : theMesh(std::move(mesh)), theCluster(std::move(cluster)), shared(std::move(shared)) {
  assert(theMesh.ranks() <= theCluster->ranks() && !theCluster->mixed());
}

CollectiveModel::CollectiveModel(Mesh mesh, Cluster cluster, std::shared_ptr<GroupShapes> shared)
    : CollectiveModel(mesh, clusterOfRanks(std::move(cluster), mesh.ranks()), std::move(shared)) {}

const GroupShape &CollectiveModel::group(std::span<const AxisRef> axes) const {
  thread_local std::vector<AxisRef> key; // keeps its memory: this function is called very often
  key.assign(axes.begin(), axes.end());
  // The order of the axes orders a ring's members but does not change their placement.
  std::sort(key.begin(), key.end());
  auto it = groups.find(key);
  if (it != groups.end())
    return it->second;
  const std::vector<RankDigit> digits = digitsOf(theMesh, key);
  if (!shared)
    return groups.emplace(key, shapeOf(digits, theMesh.ranks(), *theCluster)).first->second;
  std::vector<int64_t> lie = {theMesh.ranks()};
  for (const RankDigit &digit : digits) {
    lie.push_back(digit.distance);
    lie.push_back(digit.size);
  }
  auto known = shared->find(lie);
  if (known == shared->end())
    known = shared->emplace(lie, shapeOf(digits, theMesh.ranks(), *theCluster)).first;
  return groups.emplace(key, known->second).first->second;
}

double CollectiveModel::seconds(Collective collective, std::span<const AxisRef> axes, double bytes) const {
  return collectiveSeconds(collective, group(axes), bytes);
}

double CollectiveModel::seconds(const ReshardStep &step, double bytesIn, double bytesOut) const {
  if (const CollectiveOp *op = collectiveOf(step.kind))
    return seconds(op->pricedAs, step.axes, op->pricedByResult ? bytesOut : bytesIn);
  Work copy; // the kept part of the local tensor is read and written
  copy.kernelClass = KernelClass::Movement;
  copy.bytes = 2 * bytesOut;
  return computeSeconds(theCluster->device, copy);
}
