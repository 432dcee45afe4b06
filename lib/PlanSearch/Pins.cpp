// SPDX-License-Identifier: Apache-2.0
#include "Pins.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::plansearch {

using Json = nlohmann::ordered_json;

namespace {

/// Returns whether the key's value is an object whose entries are pins of their own.
bool isSplit(const std::string &key) { return key == "mesh" || key == "schedule"; }

Json pinsJson(const Plan &plan) {
  Plan pins = plan;
  pins.predicted.reset();
  pins.modelHash.clear();
  pins.clusterHash.clear();
  pins.keptKeys = Json::object();
  Json root = Json::parse(toJson(pins));
  root.erase("kerf");
  return root;
}

Plan fromPins(Json root) {
  root["kerf"] = 1;
  return *parsePlan(root.dump(), "pins");
}

std::pair<std::string, std::string> parts(const std::string &pin) {
  size_t dot = pin.find('.');
  return dot == std::string::npos ? std::pair(pin, std::string()) : std::pair(pin.substr(0, dot), pin.substr(dot + 1));
}

} // namespace

std::vector<std::string> pinNames(const Plan &plan) {
  std::vector<std::string> pins;
  const Json root = pinsJson(plan);
  for (const auto &[key, value] : root.items()) {
    if (!isSplit(key)) {
      pins.push_back(key);
      continue;
    }
    for (const auto &[entry, unused] : value.items())
      pins.push_back(fmt::format("{}.{}", key, entry));
  }
  return pins;
}

std::optional<std::string> pinValue(const Plan &plan, const std::string &pin) {
  auto [key, entry] = parts(pin);
  const Json root = pinsJson(plan);
  if (!root.contains(key) || (!entry.empty() && !root.at(key).contains(entry)))
    return std::nullopt;
  return (entry.empty() ? root.at(key) : root.at(key).at(entry)).dump();
}

std::string pinText(const Plan &plan, const std::string &pin) {
  std::string value = pinValue(plan, pin).value_or("");
  bool isPlain = !value.empty() && value.find_first_of("[{") == std::string::npos;
  return isPlain ? fmt::format("{} = {}", pin, value) : pin; // lists and objects are too long
}

Plan withoutPin(const Plan &plan, const std::string &pin) {
  auto [key, entry] = parts(pin);
  Json root = pinsJson(plan);
  if (entry.empty())
    root.erase(key);
  else
    root.at(key).erase(entry);
  return fromPins(std::move(root));
}

Plan decisionsOf(const Plan &plan) {
  Plan decisions;
  decisions.meshSizes = plan.meshSizes;
  decisions.order = plan.order;
  decisions.microbatch = plan.microbatch;
  decisions.schedule = plan.schedule;
  decisions.schedule.inFlight.clear(); // follows from the memory limit
  decisions.stages = plan.stages;
  decisions.recompute = plan.recompute;
  decisions.recomputeLayers = plan.recomputeLayers;
  decisions.optimizerSharding = plan.optimizerSharding;
  decisions.optimizerShardingRanks = plan.optimizerShardingRanks;
  decisions.optimizerStates = plan.optimizerStates;
  decisions.sequenceParallel = plan.sequenceParallel;
  decisions.layout = plan.layout;
  decisions.contextStyle = plan.contextStyle;
  return decisions;
}

Plan overlaid(const Plan &base, const Plan &pins) {
  Json root = pinsJson(base), over = pinsJson(pins);
  if (over.contains("recompute")) // patterns must not be merged with those of the base
    root.erase("recompute");
  root.merge_patch(over);
  return fromPins(std::move(root));
}

std::vector<std::string> conflictingPins(const Plan &plan, const std::function<bool(const Plan &)> &possible) {
  Plan always;
  always.globalBatch = plan.globalBatch;
  always.ops = plan.ops;
  always.arguments = plan.arguments;
  always.recomputeOps = plan.recomputeOps;
  if (!possible(always))
    return {};
  Plan left = plan;
  std::vector<std::string> needed;
  for (const std::string &pin : pinNames(plan)) {
    if (pin == "global_batch" || pin == "ops" || pin == "arguments")
      continue;
    Plan fewer = withoutPin(left, pin);
    if (possible(fewer))
      needed.push_back(pin);
    else
      left = std::move(fewer);
  }
  return needed;
}

} // namespace kerf::plansearch
