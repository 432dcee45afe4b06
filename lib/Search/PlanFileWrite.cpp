// SPDX-License-Identifier: Apache-2.0
// Writes plan.json, key by key.
#include "PlanCompression.h"
#include "PlanFile.h"
#include "kerf/Schedule/Schedule.h"
#include "kerf/Search/Plan.h"
#include "kerf/Support/JsonText.h"

#include <fmt/format.h>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

/// Returns a single value as itself, several as a list.
template <typename Values> Json oneOrList(const Values &values) {
  Json list = Json::array();
  for (const auto &value : values)
    list.push_back(value);
  return list.size() == 1 ? list[0] : list;
}

/// Writes strategies and recomputation as one object. Its order keeps the order of both lists, since in each list the
/// first pattern that matches an op counts.
void writeOps(const Plan &plan, Json &root) {
  size_t next = 0; // index in plan.ops
  auto writeUpTo = [&](size_t end) {
    for (; next < end; ++next) {
      Json strategy = Json::object();
      for (const auto &[factor, axes] : plan.ops[next].strategy)
        strategy[factor] = axes;
      root["ops"][plan.ops[next].pattern]["strategy"] = strategy;
    }
  };
  for (const OpRecompute &op : plan.recomputeOps) {
    auto its = std::find_if(plan.ops.begin() + static_cast<std::ptrdiff_t>(next), plan.ops.end(),
                            [&](const OpPlan &other) { return other.pattern == op.pattern; });
    if (its != plan.ops.end())
      writeUpTo(static_cast<size_t>(its - plan.ops.begin()) + 1);
    root["ops"][op.pattern]["recompute"] = op.recompute;
  }
  writeUpTo(plan.ops.size());
}

void writeExecution(const Plan &plan, Json &root) {
  Json schedule = Json::object();
  if (!plan.schedule.name.empty())
    schedule["name"] = plan.schedule.name;
  if (plan.schedule.chunks)
    schedule["chunks"] = plan.schedule.chunks;
  if (!plan.schedule.variant.empty())
    schedule["variant"] = plan.schedule.variant;
  if (!plan.schedule.inFlight.empty())
    schedule["in_flight"] = oneOrList(plan.schedule.inFlight);
  if (!schedule.empty())
    root["schedule"] = schedule;
  bool atOps = std::any_of(plan.stages.begin(), plan.stages.end(), [](auto &run) { return !run.until.empty(); });
  for (const StageLayers &run : plan.stages) {
    Json entry = Json::object();
    if (!run.until.empty())
      entry["until"] = run.until;
    if (!atOps)
      entry["layers"] = run.layers ? Json{run.layers->first, run.layers->second} : Json::array();
    if (!run.mesh.empty())
      entry["mesh"] = run.mesh;
    entry["stage"] = run.stage;
    entry["chunk"] = run.chunk;
    root["stages"].push_back(std::move(entry));
  }
  for (const LayerRecompute &layers : plan.recomputeLayers)
    root["recompute"][layers.pattern] = toString(layers.mode);
  if (!plan.recompute.empty()) {
    std::vector<std::string_view> words;
    for (Recompute mode : plan.recompute)
      words.push_back(toString(mode));
    root["recompute"] = oneOrList(words);
  }
  if (!plan.optimizerSharding.empty())
    root["optimizer_sharding"] = oneOrList(plan.optimizerSharding);
  if (plan.optimizerShardingRanks)
    root["optimizer_sharding_ranks"] = plan.optimizerShardingRanks;
  if (!plan.sequenceParallel.empty()) {
    Json list = Json::array();
    for (bool on : plan.sequenceParallel)
      list.push_back(on);
    root["sequence_parallel"] = list.size() == 1 ? list[0] : list;
  }
  if (plan.overlap)
    root["overlap"] = *plan.overlap;
  auto write = [&](const char *key, std::string_view word) {
    if (!word.empty())
      root[key] = word;
  };
  auto wordOf = [](auto value) { return value ? toString(*value) : std::string_view(); };
  write("layout", wordOf(plan.layout));
  write("gradient_dtype", plan.gradientDtype);
  write("optimizer_states", wordOf(plan.optimizerStates));
  write("attention", wordOf(plan.attention));
  write("context_style", wordOf(plan.contextStyle));
  if (!plan.compression.empty())
    root["compression"] = compressionJson(plan.compression);
}

} // namespace

std::string toJson(const Plan &plan) {
  Json root;
  root["kerf"] = kPlanVersion;
  root["mesh"] = Json::object();
  std::vector<std::string> order = plan.order;
  for (const auto &[axis, size] : plan.meshSizes)
    if (std::find(order.begin(), order.end(), axis) == order.end())
      order.push_back(axis);
  for (const std::string &axis : order)
    if (auto found = plan.meshSizes.find(axis); found != plan.meshSizes.end())
      root["mesh"][axis] = found->second;
  if (!plan.order.empty())
    root["order"] = plan.order;
  if (plan.globalBatch)
    root["global_batch"] = plan.globalBatch;
  if (plan.microbatch)
    root["microbatch"] = plan.microbatch;
  writeExecution(plan, root);
  for (const auto &[key, value] : plan.keptKeys.items())
    root[key] = value;
  writeOps(plan, root);
  for (const ArgumentPlan &argument : plan.arguments)
    root["arguments"][argument.pattern] = argument.dims;
  if (plan.predicted) {
    root["predicted"] = {{"step_seconds", plan.predicted->stepSeconds},
                         {"lower_bound_seconds", plan.predicted->lowerBoundSeconds},
                         {"peak_bytes", plan.predicted->peakBytes},
                         {"fits", plan.predicted->fits}};
    if (const auto &seconds = plan.predicted->secondsInterval) {
      Json bytes = Json::array();
      for (const Interval &one : plan.predicted->peakIntervals)
        bytes.push_back({static_cast<int64_t>(one.low), static_cast<int64_t>(one.high)});
      root["predicted"]["interval"] = {{"step_seconds", {seconds->low, seconds->high}},
                                       {"peak_bytes", std::move(bytes)}};
    }
  }
  if (!plan.modelHash.empty() || !plan.clusterHash.empty())
    root["inputs"] = {{"model_sha256", plan.modelHash}, {"cluster_sha256", plan.clusterHash}};
  return root.dump(2) + "\n";
}

} // namespace kerf
