// SPDX-License-Identifier: Apache-2.0
#include "kerf/Search/Plan.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kPlanVersion = 1;
constexpr int64_t kMostRanks = int64_t{1} << 24;

/// Reads parts of one file; the first fault is kept.
struct Reader {
  const std::string &where;
  std::optional<Error> fault;

  void fail(std::string message) {
    if (!fault)
      fault = Error{fmt::format("{}: {}", where, message)};
  }
  int64_t count(const Json &value, const std::string &what, int64_t least, int64_t most) {
    if (!value.is_number_integer() || value.get<int64_t>() < least || value.get<int64_t>() > most) {
      fail(fmt::format("{} is {}; it has to be an integer from {} to {}", what, value.dump(), least, most));
      return least;
    }
    return value.get<int64_t>();
  }
  std::vector<std::string> names(const Json &value, const std::string &what) {
    std::vector<std::string> list;
    if (!value.is_array())
      fail(fmt::format("{} is {}; it has to be a list of axis names", what, value.dump()));
    else
      for (const Json &item : value) {
        if (item.is_string())
          list.push_back(item.get<std::string>());
        else
          fail(fmt::format("{} holds {}; an axis name is a string", what, item.dump()));
      }
    return list;
  }
  double number(const Json &value, const std::string &what) {
    if (!value.is_number()) {
      fail(fmt::format("{} is {}; it has to be a number", what, value.dump()));
      return 0;
    }
    return value.get<double>();
  }
};

void readMesh(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail("\"mesh\" has to be an object of axis sizes, like {\"data\": 2, \"model\": 4}");
  int64_t ranks = 1;
  for (const auto &[axis, size] : value.items()) {
    int64_t ways = in.count(size, fmt::format("mesh.{}", axis), 1, kMostRanks);
    if (ways > kMostRanks / ranks)
      return in.fail(fmt::format("the mesh has more than {} ranks", kMostRanks));
    ranks *= ways;
    plan.meshSizes[axis] = ways;
  }
}

void readOps(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail("\"ops\" has to be an object of pattern: {\"strategy\": {factor: [axes]}}");
  for (const auto &[pattern, entry] : value.items()) {
    OpPlan op{pattern, {}};
    if (!entry.is_object() || !entry.contains("strategy") || !entry["strategy"].is_object())
      return in.fail(fmt::format("ops[\"{}\"] has to be {{\"strategy\": {{factor: [axes]}}}}", pattern));
    for (const auto &[key, unused] : entry.items())
      if (key != "strategy" && key != "recompute")
        return in.fail(
            fmt::format("ops[\"{}\"] has the unknown key \"{}\"; known are strategy, recompute", pattern, key));
    if (entry.contains("recompute") && entry["recompute"] != false)
      return in.fail(fmt::format("ops[\"{}\"].recompute is {}; recomputation is not lowered yet, only false is taken",
                                 pattern, entry["recompute"].dump()));
    for (const auto &[factor, axes] : entry["strategy"].items())
      op.strategy[factor] = in.names(axes, fmt::format("ops[\"{}\"].strategy.{}", pattern, factor));
    plan.ops.push_back(std::move(op));
  }
}

void readArguments(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail("\"arguments\" has to be an object of pattern: [[axes of dimension 0], ...]");
  for (const auto &[pattern, dims] : value.items()) {
    ArgumentPlan argument{pattern, {}};
    if (!dims.is_array())
      return in.fail(fmt::format("arguments[\"{}\"] has to be a list of lists of axes, one per dimension", pattern));
    for (const Json &axes : dims)
      argument.dims.push_back(in.names(axes, fmt::format("arguments[\"{}\"]", pattern)));
    plan.arguments.push_back(std::move(argument));
  }
}

void readPrediction(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail("\"predicted\" has to be an object");
  Prediction predicted;
  for (const auto &[key, item] : value.items()) {
    if (key == "step_seconds")
      predicted.stepSeconds = in.number(item, "predicted.step_seconds");
    else if (key == "lower_bound_seconds")
      predicted.lowerBoundSeconds = in.number(item, "predicted.lower_bound_seconds");
    else if (key == "fits" && item.is_boolean())
      predicted.fits = item.get<bool>();
    else if (key == "peak_bytes" && item.is_array())
      for (const Json &bytes : item)
        predicted.peakBytes.push_back(in.count(bytes, "predicted.peak_bytes", 0, INT64_MAX));
    else
      in.fail(fmt::format("predicted.{} is {}; this key or its type is not known", key, item.dump()));
  }
  plan.predicted = std::move(predicted);
}

} // namespace

Mesh Plan::mesh() const {
  std::vector<std::string> names = order;
  for (const char *axis : kPlanAxes)
    if (std::find(names.begin(), names.end(), axis) == names.end())
      names.push_back(axis);
  for (const auto &[axis, size] : meshSizes)
    if (std::find(names.begin(), names.end(), axis) == names.end())
      names.push_back(axis);
  Mesh mesh;
  for (const std::string &name : names)
    if (auto found = meshSizes.find(name); found != meshSizes.end() && found->second > 1)
      mesh.axes.push_back({name, found->second});
  return mesh;
}

Result<Plan> parsePlan(std::string_view json, const std::string &where) {
  Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object())
    return Error{
        fmt::format("{}: not a JSON object; a plan looks like {{\"kerf\": 1, \"mesh\": {{\"data\": 2}}}}", where)};
  Reader in{where, {}};
  Plan plan;
  bool versioned = false;
  for (const auto &[key, value] : root.items()) {
    if (key == "kerf") {
      versioned = true;
      in.count(value, "\"kerf\" (the version)", kPlanVersion, kPlanVersion);
    } else if (key == "mesh") {
      readMesh(in, value, plan);
    } else if (key == "order") {
      plan.order = in.names(value, "\"order\"");
      if (std::set<std::string>(plan.order.begin(), plan.order.end()).size() != plan.order.size())
        in.fail("\"order\" names an axis twice");
    } else if (key == "global_batch") {
      plan.globalBatch = in.count(value, "global_batch", 1, INT64_MAX);
    } else if (key == "microbatch") {
      plan.microbatch = in.count(value, "microbatch", 1, INT64_MAX);
    } else if (key == "ops") {
      readOps(in, value, plan);
    } else if (key == "arguments") {
      readArguments(in, value, plan);
    } else if (key == "predicted") {
      readPrediction(in, value, plan);
    } else if (key == "inputs") {
      if (!value.is_object())
        in.fail("\"inputs\" has to be an object");
      else {
        for (const char *name : {"model_sha256", "cluster_sha256"})
          if (value.contains(name) && !value[name].is_string())
            in.fail(fmt::format("inputs.{} is {}; it has to be text", name, value[name].dump()));
        if (!in.fault) {
          plan.modelHash = value.value("model_sha256", "");
          plan.clusterHash = value.value("cluster_sha256", "");
        }
      }
    } else {
      plan.others[key] = value;
    }
  }
  if (!versioned)
    in.fail("\"kerf\": 1 is missing: it says which version of the format this is");
  if (in.fault)
    return *in.fault;
  return plan;
}

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
  for (const auto &[key, value] : plan.others.items())
    root[key] = value;
  for (const OpPlan &op : plan.ops) {
    Json strategy = Json::object();
    for (const auto &[factor, axes] : op.strategy)
      strategy[factor] = axes;
    root["ops"][op.pattern] = {{"strategy", strategy}};
  }
  for (const ArgumentPlan &argument : plan.arguments)
    root["arguments"][argument.pattern] = argument.dims;
  if (plan.predicted) {
    root["predicted"] = {{"step_seconds", plan.predicted->stepSeconds},
                         {"lower_bound_seconds", plan.predicted->lowerBoundSeconds},
                         {"peak_bytes", plan.predicted->peakBytes},
                         {"fits", plan.predicted->fits}};
  }
  if (!plan.modelHash.empty() || !plan.clusterHash.empty())
    root["inputs"] = {{"model_sha256", plan.modelHash}, {"cluster_sha256", plan.clusterHash}};
  return root.dump(2) + "\n";
}

Status checkLowerable(const Plan &plan, const std::string &where) {
  for (const auto &[axis, size] : plan.meshSizes)
    if (size > 1 && (axis == "stage" || axis == "context" || axis == "expert"))
      return Error{fmt::format("{}: mesh.{} is {}; the passes lower \"data\" and \"model\" today, set it to 1", where,
                               axis, size)};
  // Key, the value that says "off", and what it would be.
  const struct {
    const char *key;
    Json off;
    const char *what;
  } table[] = {
      {"recompute", "none", "recomputation"},
      {"optimizer_sharding", 0, "optimizer sharding"},
      {"optimizer_sharding_ranks", 1, "optimizer sharding"},
      {"sequence_parallel", false, "sequence parallelism as a switch (pin ops instead)"},
  };
  for (const auto &row : table)
    if (plan.others.contains(row.key) && plan.others[row.key] != row.off)
      return Error{fmt::format("{}: {} is {}; {} is not lowered yet, only {} is", where, row.key,
                               plan.others[row.key].dump(), row.what, row.off.dump())};
  if (plan.others.contains("stages") && plan.others["stages"].is_array() && plan.others["stages"].size() > 1)
    return Error{fmt::format("{}: {} stages; pipelines are not lowered yet, only one stage is", where,
                             plan.others["stages"].size())};
  int64_t data = plan.meshSizes.contains("data") ? plan.meshSizes.at("data") : 1;
  if (plan.microbatch && plan.globalBatch && plan.microbatch < (plan.globalBatch + data - 1) / data)
    return Error{
        fmt::format("{}: microbatch {} is less than the {} samples of a data group ({} / {}); gradient accumulation "
                    "is not lowered yet",
                    where, plan.microbatch, (plan.globalBatch + data - 1) / data, plan.globalBatch, data)};
  return ok();
}

} // namespace kerf
