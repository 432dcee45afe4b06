// SPDX-License-Identifier: Apache-2.0
// Names of gradients, the patterns of plan.json that match them, and few patterns for many choices.
#include "kerf/CostModel/CompressedGradients.h"
#include "kerf/PlanSearch/CompressPlan.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kerf {

using compression::SyncChoice;

Result<std::vector<std::vector<std::string>>> gradientNames(const StepView &view) {
  const ModelWork &model = view.model;
  int64_t layers = model.layers();
  auto cut = layers ? cutLayers(view.completed, view.job, layers) : Result<LayerCut>(LayerCut{{0, 0}});
  if (!cut)
    return cut.error();
  std::vector<int64_t> firstLayer; // number of the first layer of each entry of the chain
  int64_t next = 0;
  for (const ChainSegment &entry : model.chain) {
    firstLayer.push_back(next);
    next += entry.layers;
  }
  std::vector<std::vector<std::string>> names;
  for (size_t p = 0; p < cut->size(); ++p) {
    const Part &part = view.part(static_cast<int64_t>(p));
    std::vector<std::string> &its = names.emplace_back();
    for (const GradientOfPart &gradient : gradientsOf(part)) {
      const std::string &first = gradient.group->parameter;
      auto link = static_cast<size_t>(part.segments[gradient.segment].chainIndex);
      const ChainSegment &entry = model.chain[link];
      its.push_back(first);
      if (!entry.layers || entry.names.empty() || !first.starts_with(entry.names.front()))
        continue;
      int64_t layer = std::max((*cut)[p].first, firstLayer[link]) - firstLayer[link] + gradient.layer;
      its.back() = entry.names[layer] + first.substr(entry.names.front().size());
    }
  }
  return names;
}

const CompressionPin *compressionPinOf(const std::vector<CompressionPin> &pins, const std::string &name,
                                       const ParameterGroup &group) {
  bool excluded = group.isTable || compression::excludedByDefault(group.shape);
  for (const CompressionPin &pin : pins)
    if (globMatch(pin.pattern, name) && !(pin.pattern == "*" && excluded))
      return &pin;
  return nullptr;
}

std::string withoutLayerNumber(const std::string &name) {
  auto border = [&](size_t i) { return i >= name.size() || name[i] == '.' || name[i] == '/' || name[i] == '_'; };
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    if (end > i && (i == 0 || border(i - 1)) && border(end))
      return name.substr(0, i) + "*" + name.substr(end);
    i = end + 1;
  }
  return name;
}

namespace {

/// The indices of names that differ in their layer's number only, by their pattern.
using Classes = std::map<std::string, std::vector<size_t>>;
Classes classesOf(const std::vector<std::string> &names) {
  Classes classes;
  for (size_t i = 0; i < names.size(); ++i)
    classes[withoutLayerNumber(names[i])].push_back(i);
  return classes;
}

/// Returns the most frequent of the choices at `members`; the first one of several.
template <typename Members> SyncChoice mostFrequent(const std::vector<SyncChoice> &choices, const Members &members) {
  std::vector<std::pair<SyncChoice, int64_t>> counts;
  for (size_t i : members) {
    auto known = std::find_if(counts.begin(), counts.end(), [&](auto &one) { return one.first == choices[i]; });
    if (known == counts.end())
      counts.emplace_back(choices[i], 1);
    else
      ++known->second;
  }
  return std::max_element(counts.begin(), counts.end(), [](auto &a, auto &b) { return a.second < b.second; })->first;
}

} // namespace

std::vector<SyncChoice> simplerChoices(const std::vector<std::string> &names, std::vector<SyncChoice> choices,
                                       bool oneForAll) {
  for (const auto &[pattern, members] : classesOf(names)) {
    SyncChoice most = mostFrequent(choices, members);
    for (size_t i : members)
      choices[i] = most;
  }
  std::vector<size_t> coded;
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i].codec)
      coded.push_back(i);
  if (oneForAll && !coded.empty()) {
    SyncChoice most = mostFrequent(choices, coded);
    for (size_t i : coded)
      choices[i] = most;
  }
  return choices;
}

std::vector<CompressionPin> patternsOf(const std::vector<std::string> &names, const std::vector<SyncChoice> &choices) {
  std::vector<CompressionPin> exact, wide;
  const Classes byClass = classesOf(names);
  std::vector<std::string> order; // patterns in the order of their first name
  for (const std::string &name : names)
    if (std::string pattern = withoutLayerNumber(name); std::find(order.begin(), order.end(), pattern) == order.end())
      order.push_back(std::move(pattern));
  auto add = [](std::vector<CompressionPin> &pins, const std::string &pattern, const SyncChoice &choice) {
    if (std::none_of(pins.begin(), pins.end(), [&](const CompressionPin &pin) { return pin.pattern == pattern; }))
      pins.push_back({pattern, choice});
  };
  for (const std::string &pattern : order) {
    const std::vector<size_t> &members = byClass.at(pattern);
    SyncChoice most = mostFrequent(choices, members);
    for (size_t i : members)
      if (!(choices[i] == most))
        add(exact, names[i], choices[i]);
    if (most.codec)
      add(wide, pattern, most);
  }
  // A wide pattern may match names of another class. These names come first, with their own choice.
  for (size_t i = 0; i < names.size(); ++i)
    for (const CompressionPin &pin : wide)
      if (globMatch(pin.pattern, names[i])) {
        if (!(pin.choice == choices[i]))
          add(exact, names[i], choices[i]);
        break;
      }
  exact.insert(exact.end(), wide.begin(), wide.end());
  return exact;
}

} // namespace kerf
