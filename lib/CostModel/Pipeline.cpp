// SPDX-License-Identifier: Apache-2.0
#include "kerf/CostModel/Pipeline.h"
#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

using namespace kerf;

namespace {

/// Returns the greatest common divisor of the groups' ranks: a stage of so many ranks (or a divisor) never
/// spans two groups.
int64_t commonRanks(const Cluster &cluster) {
  int64_t common = 0;
  for (const Cluster &group : cluster.groups)
    common = std::gcd(common, group.ranks());
  return common;
}

Error notInOneGroup(const Cluster &cluster, const std::string &what) {
  int64_t common = commonRanks(cluster);
  return {fmt::format("{}: '{}' has {} groups ({}), and every stage must lie inside one group; make mesh.stage a "
                      "multiple of {} (stages of {} ranks or of a divisor of {}), or give <ranks> {} or fewer",
                      what, cluster.name, cluster.groups.size(), groupsText(cluster), cluster.ranks() / common, common,
                      common, cluster.groups.front().ranks())};
}

} // namespace

Result<std::vector<int>> kerf::groupsOfStages(const Cluster &cluster, int64_t stages) {
  std::vector<int> groups;
  if (!cluster.mixed())
    return groups;
  if (stages <= 1)
    return notInOneGroup(cluster, fmt::format("mesh.stage is {} on {} ranks", stages, cluster.ranks()));
  int64_t each = cluster.ranks() / stages;
  int64_t end = cluster.groups.front().ranks(); // end of the group's ranks
  int group = 0;
  for (int64_t s = 0; s < stages; ++s) {
    for (; s * each >= end; end += cluster.groups[group].ranks())
      ++group;
    if ((s + 1) * each > end)
      return notInOneGroup(cluster,
                           fmt::format("stage {} has ranks {} to {}, {} of them in group {} and {} in the next", s,
                                       s * each, (s + 1) * each - 1, end - s * each, group, (s + 1) * each - end));
    groups.push_back(group);
  }
  return groups;
}

PipelineModel::PipelineModel(const CollectiveModel &collectives)
    : theMesh(collectives.mesh()),
      groups{std::shared_ptr<const CollectiveModel>(std::shared_ptr<void>(), &collectives)} {
  findNeighbours();
}

Result<PipelineModel> PipelineModel::make(const Mesh &mesh, const Cluster &cluster) {
  auto used = firstRanks(cluster, mesh.ranks());
  if (!used)
    return used.error();
  PipelineModel model;
  model.theMesh = mesh;
  if (!used->mixed()) {
    model.groups.push_back(std::make_shared<const CollectiveModel>(mesh, std::move(*used)));
    model.findNeighbours();
    return model;
  }
  model.stageAxis = mesh.find("stage");
  int64_t stages = model.stageAxis < 0 ? 1 : mesh.axes[model.stageAxis].size;
  auto groupOfStage = groupsOfStages(*used, stages);
  if (!groupOfStage)
    return groupOfStage.error();
  auto outermost = std::find_if(mesh.axes.begin(), mesh.axes.end(), [](const MeshAxis &axis) { return axis.size > 1; });
  if (outermost->name != "stage")
    return Error{
        fmt::format("order begins with \"{}\" (size {}), so that each stage has ranks in all {} groups of '{}' "
                    "({}); on mixed clusters \"stage\" must be the first axis of order",
                    outermost->name, outermost->size, used->groups.size(), used->name, groupsText(*used))};
  model.groupOfStage = std::move(*groupOfStage);
  model.groupLinks = used->groupLinks;
  int64_t first = 0;
  for (size_t g = 0; g < used->groups.size(); ++g) {
    Mesh its = mesh;
    its.axes[model.stageAxis].size =
        std::count(model.groupOfStage.begin(), model.groupOfStage.end(), static_cast<int>(g));
    model.firstRankOf.push_back(first);
    first += used->groups[g].ranks();
    model.groups.push_back(std::make_shared<const CollectiveModel>(std::move(its), std::move(used->groups[g])));
  }
  return model;
}

Result<PipelineModel> PipelineModel::make(const std::vector<Mesh> &meshOfStage, const Cluster &cluster) {
  auto used = firstRanks(cluster, meshOfStage.front().ranks());
  if (!used)
    return used.error();
  if (used->mixed())
    return Error{fmt::format("the plan gives stages meshes of their own, which mixed clusters do not support, and '{}' "
                             "has groups ({}); give "
                             "all stages the same mesh, or a cluster of one group",
                             used->name, groupsText(*used))};
  PipelineModel model;
  model.theMesh = meshOfStage.front();
  for (const Mesh &mesh : meshOfStage) {
    auto known = std::find_if(model.groups.begin(), model.groups.end(),
                              [&](const auto &group) { return group->mesh() == mesh; });
    model.groupOfStage.push_back(static_cast<int>(known - model.groups.begin()));
    if (known == model.groups.end())
      model.groups.push_back(std::make_shared<const CollectiveModel>(mesh, *used));
  }
  return model;
}

/// Sets `neighbours`, for a pipeline whose stages all use the same devices and whose outermost axis is "stage".
void PipelineModel::findNeighbours() {
  int axis = theMesh.find("stage");
  const Cluster &cluster = groups.front()->cluster();
  auto outermost = std::ranges::find_if(theMesh.axes, [](const MeshAxis &one) { return one.size > 1; });
  if (axis < 0 || outermost == theMesh.axes.end() || outermost->name != "stage" || cluster.levels.size() < 2)
    return;
  int64_t node = cluster.levels.front().size, ranks = theMesh.ranks() / outermost->size;
  if (2 * ranks > node || theMesh.ranks() <= node || node % ranks != 0)
    return;
  Mesh two = theMesh;
  two.axes[axis].size = 2;
  if (auto used = firstRanks(cluster, 2 * ranks))
    neighbours = std::make_shared<const CollectiveModel>(std::move(two), std::move(*used));
}

/// Returns whether the ranks of two stages next to each other are in one node.
bool PipelineModel::shareNode(int64_t from, int64_t to) const {
  int64_t ranks = theMesh.ranks() / theMesh.axes[theMesh.find("stage")].size;
  int64_t node = groups.front()->cluster().levels.front().size;
  return std::abs(from - to) == 1 && from * ranks / node == to * ranks / node;
}

/// Returns the largest number of ranks of one node that belong to `stage`.
int64_t PipelineModel::ranksOfNode(int64_t stage) const {
  int64_t ranks = theMesh.ranks() / theMesh.axes[stageAxis].size;
  int64_t node = collectives(stage).cluster().levels.front().size;
  int64_t inFirst = std::min(ranks, node - (stage * ranks - firstRankOf[groupOf(stage)]) % node);
  return std::max(inFirst, std::min(node, ranks - inFirst));
}

double PipelineModel::sendSeconds(int64_t from, int64_t to, std::span<const AxisRef> stageAxes, double bytes) const {
  if (stageAxes.empty() || bytes == 0)
    return 0;
  if (firstRankOf.empty()) {
    if (!neighbours || !shareNode(from, to))
      return groups.front()->seconds(Collective::Send, stageAxes, bytes);
    AxisRef its = wholeAxis(neighbours->mesh(), theMesh.find("stage"));
    return neighbours->seconds(Collective::Send, std::span(&its, 1), bytes);
  }
  int low = std::min(groupOf(from), groupOf(to)), high = std::max(groupOf(from), groupOf(to));
  if (low == high) {
    AxisRef its = wholeAxis(groups[low]->mesh(), stageAxis);
    return groups[low]->seconds(Collective::Send, std::span(&its, 1), bytes);
  }
  GroupLink path = groupLinks[groupLinks.size() > 1 ? low : 0];
  for (int g = low + 1; g < high && groupLinks.size() > 1; ++g) { // the path is as fast as its slowest link
    const GroupLink &next = groupLinks[g];
    path.bandwidth = std::min(path.bandwidth, next.bandwidth);
    path.latency += next.latency;
    if (next.nodeBandwidth > 0)
      path.nodeBandwidth =
          path.nodeBandwidth > 0 ? std::min(path.nodeBandwidth, next.nodeBandwidth) : next.nodeBandwidth;
  }
  GroupShape shape = groupLinkShape(groups[low]->cluster(), groups[high]->cluster(), path,
                                    std::max(ranksOfNode(from), ranksOfNode(to)));
  return collectiveSeconds(Collective::Send, shape, bytes);
}

double PipelineModel::peakFlopsOfAll(std::string_view dtype) const {
  if (firstRankOf.empty())
    return peakFlops(groups.front()->cluster().device, dtype) * static_cast<double>(theMesh.ranks());
  double flops = 0;
  for (const auto &group : groups)
    flops += peakFlops(group->cluster().device, dtype) * static_cast<double>(group->mesh().ranks());
  return flops;
}

std::vector<int64_t> kerf::cutByWeights(int64_t layers, std::span<const double> weights) {
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> counts;
  int64_t left = layers;
  for (double weight : weights) {
    counts.push_back(std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(layers) * weight / sum)));
    left -= counts.back();
  }
  // Returns how many layers part p has less than its share; negative if it has more.
  auto missing = [&](size_t p) {
    return static_cast<double>(layers) * weights[p] / sum - static_cast<double>(counts[p]);
  };
  for (; left != 0; left += left > 0 ? -1 : 1) {
    size_t chosen = weights.size();
    for (size_t p = 0; p < weights.size(); ++p) {
      bool open = left > 0 || counts[p] > 1;
      bool better =
          chosen == weights.size() || (left > 0 ? missing(p) > missing(chosen) : missing(p) < missing(chosen));
      if (open && better)
        chosen = p;
    }
    counts[chosen] += left > 0 ? 1 : -1;
  }
  return counts;
}
