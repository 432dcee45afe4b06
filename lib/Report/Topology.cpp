// SPDX-License-Identifier: Apache-2.0
#include "Topology.h"
#include "Html.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace kerf {

using namespace html;

namespace {

constexpr size_t kMostKinds = 32;
constexpr int64_t kColumns = 8, kMostDrawn = 64; // most ranks of a node that are drawn
constexpr int64_t kStageColours = 8;             // classes s0 to s7 of the style sheet

/// Returns the groups of a mixed cluster, or the cluster itself, each with its first rank.
std::vector<std::pair<int64_t, const Cluster *>> groupsOf(const Cluster &cluster) {
  std::vector<std::pair<int64_t, const Cluster *>> groups;
  if (!cluster.mixed())
    return {{0, &cluster}};
  int64_t first = 0;
  for (const Cluster &group : cluster.groups) {
    groups.emplace_back(first, &group);
    first += group.ranks();
  }
  return groups;
}

/// A unit of one level of a cluster: the group of a mixed cluster, and the index of the unit in the group.
struct UnitOfLevel {
  int64_t group = 0, index = 0;
  auto operator<=>(const UnitOfLevel &) const = default;
};
/// Returns the unit of level `level` that contains `rank`.
UnitOfLevel unitOf(const std::vector<std::pair<int64_t, const Cluster *>> &groups, int64_t rank, size_t level) {
  size_t g = groups.size() - 1;
  while (g > 0 && rank < groups[g].first)
    --g;
  const Cluster &cluster = *groups[g].second;
  level = std::min(level, cluster.levels.size() - 1);
  return {static_cast<int64_t>(g), (rank - groups[g].first) / cluster.devicesPerUnit(level)};
}

} // namespace

std::vector<AxisPlacement> axisPlacements(const Mesh &mesh, const Cluster &cluster) {
  auto groups = groupsOf(cluster);
  std::vector<AxisPlacement> places;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    AxisPlacement place{mesh.axes[a].name, mesh.axes[a].size, 1, 1, {}};
    for (size_t inner = a + 1; inner < mesh.axes.size(); ++inner)
      place.distance *= mesh.axes[inner].size;
    std::set<std::string> links;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      if (mesh.coordinate(rank, static_cast<int>(a)) != 0)
        continue;
      std::set<UnitOfLevel> nodes;
      for (int64_t i = 0; i < place.size; ++i)
        nodes.insert(unitOf(groups, rank + i * place.distance, 0));
      place.nodes = std::max(place.nodes, static_cast<int64_t>(nodes.size()));
      // Two members communicate over the innermost level of which both are in the same unit.
      for (int64_t i = 1; i < place.size; ++i) {
        int64_t one = rank + (i - 1) * place.distance, two = one + place.distance;
        UnitOfLevel of = unitOf(groups, one, 0);
        if (of.group != unitOf(groups, two, 0).group) {
          links.insert("between groups");
          continue;
        }
        const Cluster &its = *groups[of.group].second;
        for (size_t level = 0; level < its.levels.size(); ++level)
          if (unitOf(groups, one, level) == unitOf(groups, two, level)) {
            links.insert(its.levels[level].name);
            break;
          }
      }
    }
    place.links = fmt::format("{}", fmt::join(links, ", "));
    places.push_back(std::move(place));
  }
  return places;
}

std::string placementText(const AxisPlacement &place) {
  if (place.nodes == 1)
    return "inside a node";
  if (place.nodes == place.size)
    return fmt::format("one rank in each of {} nodes", place.nodes);
  return fmt::format("over {} nodes, {} ranks in each", place.nodes, (place.size + place.nodes - 1) / place.nodes);
}

std::vector<NodeKind> nodeKinds(const Mesh &mesh, const Cluster &cluster, size_t most) {
  int axis = mesh.find("stage");
  auto stageOf = [&](int64_t rank) { return rank >= mesh.ranks() ? -1 : axis < 0 ? 0 : mesh.coordinate(rank, axis); };
  // Nodes are of one kind if they have the same stages (`exact`), or if their stages are the same after renumbering
  // them in the order of the node's ranks.
  auto kindsBy = [&](bool exact) {
    std::vector<NodeKind> kinds;
    std::map<std::pair<std::vector<int64_t>, std::string>, size_t> known;
    for (const auto &[first, group] : groupsOf(cluster))
      for (int64_t rank = 0; rank < group->ranks(); rank += group->devicesPerUnit(0)) {
        int64_t end = std::min(rank + group->devicesPerUnit(0), group->ranks());
        std::vector<int64_t> stages, pattern;
        std::map<int64_t, int64_t> names;
        for (int64_t r = rank; r < end; ++r) {
          stages.push_back(stageOf(first + r));
          pattern.push_back(stages.back() < 0 ? -1 : names.try_emplace(stages.back(), names.size()).first->second);
        }
        auto [it, isNew] = known.try_emplace({exact ? stages : pattern, group->device.name}, kinds.size());
        if (isNew)
          kinds.push_back({stages, first + rank, 0, group->device.name, -1, -1});
        NodeKind &kind = kinds[it->second];
        ++kind.count;
        for (int64_t stage : stages)
          if (stage >= 0) {
            kind.firstStage = kind.firstStage < 0 ? stage : std::min(kind.firstStage, stage);
            kind.lastStage = std::max(kind.lastStage, stage);
          }
      }
    return kinds;
  };
  std::vector<NodeKind> kinds = kindsBy(true);
  return kinds.size() <= most ? kinds : kindsBy(false);
}

namespace {

std::string nodeSvg(const NodeKind &kind, const Mesh &mesh, bool coloured) {
  constexpr double kCell = 30, kHigh = 24, kPad = 6;
  auto ranks = static_cast<int64_t>(kind.stages.size());
  int64_t drawn = std::min(ranks, kMostDrawn), columns = std::min(drawn, kColumns),
          rows = (drawn + columns - 1) / columns;
  double width = kCell * static_cast<double>(columns) + 2 * kPad, height = kHigh * static_cast<double>(rows) + 2 * kPad;
  std::string body;
  for (int64_t i = 0; i < drawn; ++i) {
    double x = kPad + kCell * static_cast<double>(i % columns), y = kPad + kHigh * static_cast<double>(i / columns);
    int64_t stage = kind.stages[i], rank = kind.firstRank + i;
    std::string where = fmt::format("rank {}", rank);
    for (size_t a = 0; a < mesh.axes.size() && stage >= 0; ++a)
      where += fmt::format(", {} {}", mesh.axes[a].name, mesh.coordinate(rank, static_cast<int>(a)));
    body += fmt::format(
        "<g><title>{}</title><rect class=\"{}\" stroke=\"#fff\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        escaped(stage < 0 ? where + ": not used" : where),
        stage < 0 ? "unused" : fmt::format("s{}", coloured ? stage % kStageColours : 0), number(x), number(y),
        number(kCell), number(kHigh));
    body += fmt::format("<text class=\"middle\" x=\"{}\" y=\"{}\">{}</text></g>\n", number(x + kCell / 2),
                        number(y + 16), stage < 0 ? "-" : fmt::format("{}", coloured ? stage : rank));
  }
  // Outline the groups of the innermost axis, if each group is drawn in one row.
  int64_t group = mesh.axes.empty() ? 1 : mesh.axes.back().size;
  bool fit = group > 1 && columns % group == 0 && kind.firstRank % group == 0;
  for (int64_t i = 0; fit && i + group <= drawn && kind.stages[i] >= 0; i += group)
    body += fmt::format("<rect class=\"outline\" rx=\"3\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                        number(kPad + kCell * static_cast<double>(i % columns) + 1),
                        number(kPad + kHigh * static_cast<double>(i / columns) + 1),
                        number(kCell * static_cast<double>(group) - 2), number(kHigh - 2));
  return fmt::format(
      "<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"node of ranks "
      "{2} to {3}\"><rect class=\"box\" x=\"0.5\" y=\"0.5\" width=\"{4}\" height=\"{5}\" "
      "rx=\"5\"/>\n{6}</svg>",
      number(width), number(height), kind.firstRank, kind.firstRank + ranks - 1, number(width - 1), number(height - 1),
      body);
}

} // namespace

std::string topologyHtml(const Mesh &mesh, const Cluster &cluster) {
  std::vector<NodeKind> kinds = nodeKinds(mesh, cluster, kMostKinds);
  bool staged = mesh.find("stage") >= 0;
  std::string text = "<div class=\"topology\">\n";
  for (const NodeKind &kind : kinds) {
    std::string said = cluster.mixed() ? kind.device + ", " : "";
    if (kind.firstStage < 0)
      said += "not used";
    else if (!staged)
      said += fmt::format("from rank {}", kind.firstRank);
    else if (kind.firstStage == kind.lastStage)
      said += fmt::format("stage {}", kind.firstStage);
    else
      said += fmt::format("stages {} to {}", kind.firstStage, kind.lastStage);
    auto ranks = static_cast<int64_t>(kind.stages.size());
    if (ranks > kMostDrawn)
      said += fmt::format(", {} of {} ranks are drawn", kMostDrawn, ranks);
    text += fmt::format("<figure>{}<figcaption>{} \xC3\x97 {}: {}</figcaption></figure>\n", nodeSvg(kind, mesh, staged),
                        kind.count, kind.count == 1 ? "node" : "nodes", escaped(said));
  }
  return text + "</div>\n";
}

} // namespace kerf
