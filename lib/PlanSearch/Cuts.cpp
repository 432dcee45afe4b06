// SPDX-License-Identifier: Apache-2.0
// The part of the search space that cuts the layers into pipeline parts.
#include "Space.h"
#include <algorithm>
#include <cmath>

namespace kerf::plansearch {

bool Space::canCut(const Choice &choice) const {
  std::vector<int64_t> layers = trainerSpace.unevenStages ? std::vector<int64_t>() : layersOfParts(choice);
  return std::ranges::all_of(layers, [&](int64_t its) { return its == layers.front(); });
}

std::vector<Choice> Space::cuts(const Choice &execution) const {
  Choice choice = execution;
  choice.level = Choice::Level::Cut;
  int64_t parts = execution.sizes.stage * execution.chunks;
  std::optional<PartialCut> partial = partialCut(choice);
  if (parts == 1 || (!constraints.stages.empty() && !partial)) {
    choice.firstPartLayers = choice.lastPartLayers = layerCount;
    return {choice};
  }
  std::vector<Choice> list = partial                          ? partialCuts(choice, *partial)
                             : groupsOf(choice.sizes).empty() ? uniformCuts(choice)
                                                              : mixedCuts(choice);
  std::erase_if(list, [&](const Choice &cut) { return !canCut(cut); });
  return list;
}

/// Returns the layers of the part with this index among `parts` parts that share `layers` layers evenly.
static int64_t evenShare(int64_t layers, int64_t parts, int64_t index) {
  return layers / parts + (index < layers % parts ? 1 : 0);
}

/// Returns the most layers of the first part and of the last part.
static int64_t mostLayersOfEnds(int64_t layers, int64_t parts) { return evenShare(layers, parts, 0) + 1; }

std::vector<int64_t> Space::leastLayersOfParts(const Choice &execution) const {
  const int64_t parts = execution.sizes.stage * execution.chunks;
  if (parts < 3 || layerCount == 0 || !constraints.stages.empty() || !groupsOf(execution.sizes).empty())
    return {};
  const int64_t between = std::max(parts - 2, layerCount - 2 * mostLayersOfEnds(layerCount, parts));
  std::vector<int64_t> layers(parts, 0);
  for (int64_t p = 1; p + 1 < parts; ++p)
    layers[p] = evenShare(between, parts - 2, p - 1);
  return layers;
}

std::vector<Choice> Space::uniformCuts(const Choice &execution) const {
  Choice choice = execution;
  int64_t parts = execution.sizes.stage * execution.chunks;
  std::vector<Choice> list;
  int64_t most = mostLayersOfEnds(layerCount, parts);
  for (choice.firstPartLayers = 1; choice.firstPartLayers <= most; ++choice.firstPartLayers)
    for (choice.lastPartLayers = 1; choice.lastPartLayers <= most; ++choice.lastPartLayers) {
      int64_t between = layerCount - choice.firstPartLayers - choice.lastPartLayers;
      if (parts == 2 ? between == 0 : between >= parts - 2)
        list.push_back(choice);
    }
  return list;
}

std::optional<Space::PartialCut> Space::partialCut(const Choice &choice) const {
  int64_t stages = choice.sizes.stage, parts = stages * choice.chunks;
  if (constraints.stages.empty() || cluster.mixed())
    return std::nullopt;
  std::vector<std::optional<std::pair<int64_t, int64_t>>> told(parts); // first and last layer
  for (const StageLayers &run : constraints.stages) {
    int64_t part = run.chunk * stages + run.stage;
    if (!run.layers || run.stage >= stages || run.chunk >= choice.chunks || told[part])
      return std::nullopt;
    told[part] = run.layers;
  }
  PartialCut cut;
  cut.layers.assign(parts, 0);
  int64_t next = 0; // first layer that no part has yet
  for (int64_t part = 0; part < parts;) {
    int64_t end = part;
    while (end < parts && !told[end])
      ++end;
    int64_t layers = (end < parts ? told[end]->first : layerCount) - next;
    if (end == part ? layers != 0 : layers < end - part)
      return std::nullopt;
    if (end > part)
      cut.free.push_back({part, end, layers});
    if (end < parts) {
      cut.layers[end] = told[end]->second - told[end]->first + 1;
      next = told[end]->second + 1;
    }
    part = end + 1;
  }
  bool all = cut.free.empty() || (told.back() && next != layerCount);
  return all ? std::nullopt : std::optional(std::move(cut));
}

/// The model's first and last part have all sizes that they have without constraints, unless the constraints give them.
std::vector<Choice> Space::partialCuts(const Choice &execution, const PartialCut &cut) const {
  auto parts = static_cast<int64_t>(cut.layers.size());
  auto range = [&](int64_t part) -> std::pair<int64_t, int64_t> {
    for (const FreeParts &free : cut.free) {
      int64_t count = free.end - free.begin;
      if (part >= free.begin && part < free.end)
        return {count == 1 ? free.layers : 1,
                count == 1 ? free.layers : std::min(free.layers - count + 1, (free.layers + count - 1) / count + 1)};
    }
    return {cut.layers[part], cut.layers[part]};
  };
  auto [firstLeast, firstMost] = range(0);
  auto [lastLeast, lastMost] = range(parts - 1);
  std::vector<Choice> list;
  Choice choice = execution;
  for (choice.firstPartLayers = firstLeast; choice.firstPartLayers <= firstMost; ++choice.firstPartLayers)
    for (choice.lastPartLayers = lastLeast; choice.lastPartLayers <= lastMost; ++choice.lastPartLayers)
      list.push_back(choice);
  return list;
}

/// Each device group takes from half to twice its share of the layers in proportion to FLOP/s. The parts of a group
/// share its layers evenly, except for the model's first and last part, which have all sizes.
std::vector<Choice> Space::mixedCuts(const Choice &execution) const {
  const std::vector<int> &groups = groupsOf(execution.sizes);
  auto count = static_cast<size_t>(groups.back()) + 1;
  std::vector<int64_t> parts(count, 0), least(count), most(count);
  double sum = 0;
  for (int group : groups) {
    parts[group] += execution.chunks;
    sum += flopsOfGroup[group] * static_cast<double>(execution.chunks);
  }
  for (size_t g = 0; g < count; ++g) {
    double share = static_cast<double>(layerCount) * flopsOfGroup[g] * static_cast<double>(parts[g]) / sum;
    least[g] = std::max(parts[g], static_cast<int64_t>(share / 2));
    most[g] = std::min(layerCount, static_cast<int64_t>(std::ceil(2 * share)));
  }
  std::vector<Choice> list;
  Choice choice = execution;
  auto ends = [&](size_t g) { // range of layers of the model's first or last part
    return parts[g] == 1 ? std::pair<int64_t, int64_t>(choice.layersOfGroup[g], choice.layersOfGroup[g])
                         : std::pair<int64_t, int64_t>(1, (choice.layersOfGroup[g] + parts[g] - 1) / parts[g] + 1);
  };
  auto add = [&] {
    auto [firstLeast, firstMost] = ends(0);
    auto [lastLeast, lastMost] = ends(count - 1);
    for (choice.firstPartLayers = firstLeast; choice.firstPartLayers <= firstMost; ++choice.firstPartLayers)
      for (choice.lastPartLayers = lastLeast; choice.lastPartLayers <= lastMost; ++choice.lastPartLayers)
        if (choice.layersOfGroup[0] - choice.firstPartLayers >= parts[0] - 1 &&
            choice.layersOfGroup[count - 1] - choice.lastPartLayers >= parts[count - 1] - 1)
          list.push_back(choice);
  };
  auto deal = [&](auto &self, size_t g, int64_t left) -> void {
    bool isLast = g + 1 == count;
    for (int64_t layers = isLast ? left : least[g]; layers <= std::min(left, most[g]); ++layers) {
      choice.layersOfGroup[g] = static_cast<int32_t>(layers);
      if (!isLast)
        self(self, g + 1, left - layers);
      else if (layers >= least[g])
        add();
    }
  };
  deal(deal, 0, layerCount);
  return list;
}

std::vector<int64_t> Space::layersOfParts(const Choice &choice) const {
  int64_t parts = choice.sizes.stage * choice.chunks;
  if (parts == 1)
    return {layerCount};
  if (const std::vector<int> &groups = groupsOf(choice.sizes); !groups.empty()) {
    std::vector<int64_t> count(groups.back() + 1, 0), left(count.size());
    for (int group : groups)
      count[group] += choice.chunks;
    for (size_t g = 0; g < count.size(); ++g)
      left[g] = choice.layersOfGroup[g];
    left.front() -= choice.firstPartLayers;
    left.back() -= choice.lastPartLayers;
    --count.front();
    --count.back();
    std::vector<int64_t> layers = {choice.firstPartLayers}, next(count.size(), 0);
    for (int64_t p = 1; p + 1 < parts; ++p) {
      int g = groups[p % choice.sizes.stage];
      layers.push_back(evenShare(left[g], count[g], next[g]++));
    }
    layers.push_back(choice.lastPartLayers);
    return layers;
  }
  if (std::optional<PartialCut> partial = partialCut(choice)) {
    std::vector<int64_t> layers = partial->layers;
    layers.front() = choice.firstPartLayers;
    layers.back() = choice.lastPartLayers;
    for (auto [begin, end, left] : partial->free) {
      left -= (begin == 0 ? choice.firstPartLayers : 0) + (end == parts ? choice.lastPartLayers : 0);
      begin += begin == 0;
      end -= end == parts;
      for (int64_t part = begin; part < end; ++part)
        layers[part] = evenShare(left, end - begin, part - begin);
    }
    return layers;
  }
  std::vector<int64_t> layers = {choice.firstPartLayers};
  int64_t between = layerCount - choice.firstPartLayers - choice.lastPartLayers;
  for (int64_t i = 0; i < parts - 2; ++i)
    layers.push_back(evenShare(between, parts - 2, i));
  layers.push_back(choice.lastPartLayers);
  return layers;
}

} // namespace kerf::plansearch
