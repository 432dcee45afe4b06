// SPDX-License-Identifier: Apache-2.0
// Reads plan.json, key by key.
#include "PlanFile.h"
#include "PlanCompression.h"
#include "kerf/Schedule/Schedule.h"
#include "kerf/Search/Plan.h"
#include "kerf/Support/File.h"
#include "kerf/Support/JsonText.h"
#include "kerf/Support/Suggest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <set>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kMostRanks = int64_t{1} << 24;
constexpr int64_t kMostStages = 1 << 16;
constexpr int64_t kMostInFlight = int64_t(1) << 30;

/// All keys of the file.
const std::vector<std::string> kTopLevelKeys = {"kerf",
                                                "mesh",
                                                "order",
                                                "global_batch",
                                                "microbatch",
                                                "schedule",
                                                "stages",
                                                "recompute",
                                                "optimizer_sharding",
                                                "optimizer_sharding_ranks",
                                                "sequence_parallel",
                                                "layout",
                                                "overlap",
                                                "gradient_dtype",
                                                "optimizer_states",
                                                "attention",
                                                "compression",
                                                "context_style",
                                                "ops",
                                                "arguments",
                                                "predicted",
                                                "inputs",
                                                "report",
                                                "job",
                                                "notes"};
/// Keys of an earlier format. They described how a trainer works, which is no decision of a plan.
constexpr std::string_view kTrainersKeys[] = {"gradient_accumulation", "parameter_gathers", "stage_sends"};
/// Keys whose values are kept unchanged: the report for `kerf explain`, the job of the plan, and notes of people.
constexpr std::string_view kKeptKeys[] = {"report", "job", "notes"};

/// Reads values of one file, and keeps the first fault.
struct Reader {
  const std::string &where;
  std::string_view text; // the whole file
  std::optional<Error> fault = {};

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
  /// Reads one of the words in `known`.
  template <typename Words = std::initializer_list<const char *>>
  std::string word(const Json &value, const std::string &what, const Words &known) {
    if (value.is_string())
      for (std::string_view name : known)
        if (value.get<std::string>() == name)
          return std::string(name);
    fail(fmt::format("{} is {}; it has to be \"{}\"", what, value.dump(), fmt::join(known, "\" or \"")));
    return "";
  }
  /// Reads a value of an enumeration by its word (kerf/Support/PlanWords.h).
  template <typename Value> Value enumerator(const Json &value, const std::string &what) {
    return parsePlanWord<Value>(word(value, what, PlanWords<Value>::words)).value_or(Value());
  }
  /// Reports an unknown key with a suggestion. `what` names the object that has the key; "" is the whole plan.
  void unknownKey(const std::string &what, const std::string &key, const std::vector<std::string> &known) {
    fail(fmt::format("{}{} the unknown key \"{}\" ({}); {}", what, what.empty() ? "it has" : " has", key,
                     locateKey(text, key), suggestion(key, known)));
  }
  void onlyKeys(const Json &object, const std::string &what, const std::vector<std::string> &known) {
    for (const auto &[key, unused] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        unknownKey(what, key, known);
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
    return in.fail(fmt::format(
        "\"mesh\" is {}; it has to be an object of axis sizes, like {{\"data\": 2, \"model\": 4}}", value.dump()));
  int64_t ranks = 1;
  for (const auto &[axis, size] : value.items()) {
    if (axis == "microbatch")
      return in.fail("mesh.microbatch: a microbatch is no axis of ranks; set \"microbatch\" beside the mesh");
    int64_t axisSize = in.count(size, fmt::format("mesh.{}", axis), 1, kMostRanks);
    if (axisSize > kMostRanks / ranks)
      return in.fail(fmt::format("the mesh has more than {} ranks; give smaller axes", kMostRanks));
    ranks *= axisSize;
    plan.meshSizes[axis] = axisSize;
  }
}

void readOps(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail(fmt::format("\"ops\" is {}; it has to be an object of pattern: {{\"strategy\": {{factor: [axes]}}, "
                               "\"recompute\": false}}",
                               value.dump()));
  for (const auto &[pattern, entry] : value.items()) {
    if (!entry.is_object() || entry.empty() || (entry.contains("strategy") && !entry["strategy"].is_object()))
      return in.fail(
          fmt::format("ops[\"{}\"] is {}; it has to be {{\"strategy\": {{factor: [axes]}}}}, {{\"recompute\": "
                      "true or false}} or both",
                      pattern, entry.dump()));
    in.onlyKeys(entry, fmt::format("ops[\"{}\"]", pattern), {"strategy", "recompute"});
    if (entry.contains("recompute")) {
      if (!entry["recompute"].is_boolean())
        return in.fail(
            fmt::format("ops[\"{}\"].recompute is {}; it has to be true or false", pattern, entry["recompute"].dump()));
      plan.recomputeOps.push_back({pattern, entry["recompute"].get<bool>()});
    }
    if (!entry.contains("strategy"))
      continue;
    OpPlan op{pattern, {}};
    for (const auto &[factor, axes] : entry["strategy"].items())
      op.strategy[factor] = in.names(axes, fmt::format("ops[\"{}\"].strategy.{}", pattern, factor));
    plan.ops.push_back(std::move(op));
  }
}

void readArguments(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail(fmt::format("\"arguments\" is {}; it has to be an object of pattern: [[axes of dimension 0], ...]",
                               value.dump()));
  for (const auto &[pattern, dims] : value.items()) {
    ArgumentPlan argument{pattern, {}};
    if (!dims.is_array())
      return in.fail(fmt::format("arguments[\"{}\"] is {}; it has to be a list of lists of axes, one per dimension",
                                 pattern, dims.dump()));
    for (const Json &axes : dims)
      argument.dims.push_back(in.names(axes, fmt::format("arguments[\"{}\"]", pattern)));
    plan.arguments.push_back(std::move(argument));
  }
}

/// Reads [low, high]; nothing if the value has another form.
std::optional<Interval> intervalOf(const Json &value) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number())
    return std::nullopt;
  return Interval{value[0].get<double>(), value[1].get<double>()};
}

void readIntervals(Reader &in, const Json &value, Prediction &predicted) {
  in.onlyKeys(value, "predicted.interval", {"step_seconds", "peak_bytes"});
  auto refuse = [&](const Json &item) {
    in.fail(fmt::format("predicted.interval has {}, where [low, high] belongs; leave \"predicted\" out", item.dump()));
  };
  if (value.contains("step_seconds") && !(predicted.secondsInterval = intervalOf(value["step_seconds"])))
    refuse(value["step_seconds"]);
  if (!value.contains("peak_bytes"))
    return;
  if (!value["peak_bytes"].is_array())
    return refuse(value["peak_bytes"]);
  for (const Json &item : value["peak_bytes"]) {
    auto interval = intervalOf(item);
    if (!interval)
      return refuse(item);
    predicted.peakIntervals.push_back(*interval);
  }
}

void readPrediction(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail(fmt::format("\"predicted\" is {}; it has to be an object, or leave it out", value.dump()));
  in.onlyKeys(value, "predicted", {"step_seconds", "lower_bound_seconds", "peak_bytes", "fits", "interval"});
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
    else if (key == "interval" && item.is_object())
      readIntervals(in, item, predicted);
    else
      in.fail(fmt::format("predicted.{} is {}, which has the wrong type; leave \"predicted\" out", key, item.dump()));
  }
  plan.predicted = std::move(predicted);
}

/// Reads one value for all stages, or a list with one for each.
template <typename Read> void readPerStage(Reader &in, const Json &value, const std::string &key, Read read) {
  if (!value.is_array())
    return read(value, key);
  if (value.empty())
    in.fail(fmt::format("{} is []; give one value, or one for each stage", key));
  for (size_t i = 0; i < value.size(); ++i)
    read(value[i], fmt::format("{}[{}]", key, i));
}

void readSchedule(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_object())
    return in.fail(
        fmt::format("\"schedule\" is {}; it has to be an object, like {{\"name\": \"1f1b\"}}", value.dump()));
  in.onlyKeys(value, "schedule", {"name", "chunks", "variant", "in_flight"});
  if (value.contains("name"))
    plan.schedule.name = in.word(value["name"], "schedule.name", scheduleNames());
  if (value.contains("chunks"))
    plan.schedule.chunks = in.count(value["chunks"], "schedule.chunks", 1, kMostStages);
  if (value.contains("variant"))
    plan.schedule.variant = in.word(value["variant"], "schedule.variant", scheduleVariants());
  if (value.contains("in_flight"))
    readPerStage(in, value["in_flight"], "schedule.in_flight", [&](const Json &item, const std::string &what) {
      plan.schedule.inFlight.push_back(in.count(item, what, 1, kMostInFlight));
    });
}

/// Reads an entry of a list that cuts at ops. Only stageCuts knows which part is the last one, without "until".
void readUntil(Reader &in, const Json &entry, const std::string &what, StageLayers &run) {
  if (entry.contains("layers"))
    return in.fail(fmt::format("{} has \"layers\" and other entries have \"until\"; give all entries \"layers\", or "
                               "all \"until\"",
                               what));
  if (!entry.contains("until"))
    return;
  if (!entry["until"].is_string() || entry["until"].get<std::string>().empty())
    return in.fail(fmt::format("{}.until is {}; it has to be the name of an operator, or a pattern of names", what,
                               entry["until"].dump()));
  run.until = entry["until"].get<std::string>();
}

/// Reads the axis sizes of one stage's own mesh; axes that the object does not name have size 1 in the stage.
void readStageMesh(Reader &in, const Json &value, const std::string &what, StageLayers &run) {
  if (!value.is_object() || value.empty())
    return in.fail(fmt::format("{} is {}; it has to be an object of axis sizes, like {{\"data\": 2, \"model\": 4}}",
                               what, value.dump()));
  int64_t ranks = 1;
  for (const auto &[axis, size] : value.items()) {
    if (planAxis(axis) < 0 || axis == kPlanAxes[0])
      return in.fail(
          fmt::format("{} has the axis \"{}\"; the ranks of a stage have data, context, expert and model", what, axis));
    int64_t axisSize = in.count(size, fmt::format("{}.{}", what, axis), 1, kMostRanks);
    if (axisSize > kMostRanks / ranks)
      return in.fail(fmt::format("{} has more than {} ranks; give smaller axes", what, kMostRanks));
    ranks *= axisSize;
    run.mesh[axis] = axisSize;
  }
}

/// Where the plan's mesh only gives the number of stages, the first stage's own mesh gives its other axes.
void meshOfFirstStage(Plan &plan) {
  if (std::any_of(plan.meshSizes.begin(), plan.meshSizes.end(), [](auto &axis) { return axis.first != kPlanAxes[0]; }))
    return;
  for (const StageLayers &run : plan.stages)
    if (run.stage == 0 && !run.mesh.empty())
      return plan.meshSizes.insert(run.mesh.begin(), run.mesh.end());
}

/// Entry i of the list is chunk i / stages of stage i % stages, unless the entry names its stage and chunk.
void readStages(Reader &in, const Json &value, Plan &plan) {
  if (!value.is_array())
    return in.fail(
        fmt::format("\"stages\" is {}; it has to be a list like [{{\"layers\": [0, 11]}}, {{\"layers\": [12, 23]}}]",
                    value.dump()));
  int64_t stages = plan.meshSizes.contains("stage") ? plan.meshSizes.at("stage") : int64_t(value.size());
  bool atOps =
      std::any_of(value.begin(), value.end(), [](const Json &one) { return one.is_object() && one.contains("until"); });
  for (size_t i = 0; i < value.size() && !in.fault; ++i) {
    const Json &entry = value[i];
    std::string what = fmt::format("stages[{}]", i);
    if (!entry.is_object())
      return in.fail(fmt::format("{} is {}; it has to be an object like {{\"layers\": [0, 11]}}", what, entry.dump()));
    if (entry.contains("ranks"))
      return in.fail(
          fmt::format("{} has the key \"ranks\", but all stages have the same number of ranks; give the stage's "
                      "\"mesh\" instead",
                      what));
    in.onlyKeys(entry, what, {"layers", "until", "mesh", "stage", "chunk"});
    StageLayers run;
    run.stage = int64_t(i) % std::max<int64_t>(1, stages);
    run.chunk = int64_t(i) / std::max<int64_t>(1, stages);
    if (entry.contains("stage"))
      run.stage = in.count(entry["stage"], what + ".stage", 0, kMostStages - 1);
    if (entry.contains("chunk"))
      run.chunk = in.count(entry["chunk"], what + ".chunk", 0, kMostStages - 1);
    if (entry.contains("mesh"))
      readStageMesh(in, entry["mesh"], what + ".mesh", run);
    if (atOps) {
      readUntil(in, entry, what, run);
      plan.stages.push_back(run);
      continue;
    }
    if (!entry.contains("layers") && !entry.contains("mesh"))
      continue; // the search decides its layers
    const Json layers = entry.contains("layers") ? entry["layers"] : Json();
    if (!layers.is_array() || (layers.size() != 2 && !layers.empty()))
      return in.fail(fmt::format("{}.layers is {}; it has to be [first, last], or [] where a stage has no layer", what,
                                 layers.dump()));
    if (layers.size() == 2) {
      int64_t first = in.count(layers[0], what + ".layers[0]", 0, kMostRanks);
      run.layers = {first, in.count(layers[1], what + ".layers[1]", first, kMostRanks)};
    }
    plan.stages.push_back(run);
  }
  meshOfFirstStage(plan);
}

/// Reads one value for all stages, a list with one for each, or an object {pattern of layers: value}.
void readRecompute(Reader &in, const Json &value, Plan &plan) {
  if (value.is_object()) {
    if (value.empty())
      in.fail("recompute is {}; give patterns of layers, like {\"0-3\": \"full\"}, or one value");
    for (const auto &[pattern, mode] : value.items())
      plan.recomputeLayers.push_back(
          {pattern, in.enumerator<Recompute>(mode, fmt::format("recompute[\"{}\"]", pattern))});
    return;
  }
  readPerStage(in, value, "recompute", [&](const Json &item, const std::string &what) {
    if (item.is_object())
      return in.fail(
          fmt::format("{} is {}; patterns of layers apply to all stages, so give one object: {{\"0-3\": \"full\"}}",
                      what, item.dump()));
    plan.recompute.push_back(in.enumerator<Recompute>(item, what));
  });
}

/// Reads `key` if it is one of the keys of PlanExecution or of the layout. Returns whether it is.
bool readExecution(Reader &in, const std::string &key, const Json &value, Plan &plan) {
  if (key == "schedule")
    readSchedule(in, value, plan);
  else if (key == "recompute")
    readRecompute(in, value, plan);
  else if (key == "optimizer_sharding")
    readPerStage(in, value, key, [&](const Json &item, const std::string &what) {
      plan.optimizerSharding.push_back(in.count(item, what, 0, 3));
    });
  else if (key == "sequence_parallel")
    readPerStage(in, value, key, [&](const Json &item, const std::string &what) {
      if (!item.is_boolean())
        return in.fail(fmt::format("{} is {}; it has to be true or false", what, item.dump()));
      plan.sequenceParallel.push_back(item.get<bool>());
    });
  else if (key == "layout")
    plan.layout = in.enumerator<OpLayout>(value, key);
  else if (key == "optimizer_sharding_ranks")
    plan.optimizerShardingRanks = in.count(value, key, 1, kMostRanks);
  else if (key == "overlap") {
    plan.overlap.emplace();
    if (!value.is_array())
      return in.fail(
                 fmt::format("overlap is {}; it has to be a list of {}", value.dump(), fmt::join(kPlanOverlaps, ", "))),
             true;
    for (const Json &item : value)
      plan.overlap->push_back(in.word(item, key, kPlanOverlaps));
  } else if (key == "gradient_dtype")
    plan.gradientDtype = in.word(value, key, {"f32", "bf16", "f16", "f64"});
  else if (key == "optimizer_states")
    plan.optimizerStates = in.enumerator<OptimizerStates>(value, key);
  else if (key == "attention")
    plan.attention = in.enumerator<AttentionKernels>(value, key);
  else if (key == "context_style")
    plan.contextStyle = in.enumerator<ContextStyle>(value, key);
  else if (key == "compression") {
    if (std::string wrong = readCompression(value, plan.compression); !wrong.empty())
      in.fail(wrong);
  } else
    return false;
  return true;
}

/// Refuses a mesh axis that no pin uses and whose name is close to a known axis: it is misspelled.
void checkAxes(Reader &in, const Plan &plan) {
  auto uses = [](const auto &lists, const std::string &axis) {
    return std::any_of(lists.begin(), lists.end(), [&](const std::vector<std::string> &axes) {
      return std::find(axes.begin(), axes.end(), axis) != axes.end();
    });
  };
  for (const auto &[axis, size] : plan.meshSizes) {
    std::string near = nearestWord(axis, {std::begin(kPlanAxes), std::end(kPlanAxes)});
    if (planAxis(axis) >= 0 || near.empty())
      continue;
    bool used = std::any_of(plan.arguments.begin(), plan.arguments.end(),
                            [&](const ArgumentPlan &argument) { return uses(argument.dims, axis); });
    for (const OpPlan &op : plan.ops)
      for (const auto &[factor, axes] : op.strategy)
        used |= uses(std::vector<std::vector<std::string>>{axes}, axis);
    if (!used)
      in.fail(fmt::format("mesh has the axis \"{}\" ({}), which no pin uses; did you mean \"{}\"?", axis,
                          locateKey(in.text, axis), near));
  }
}

} // namespace

Result<Plan> parsePlan(std::string_view json, const std::string &where) {
  if (Status status = checkJson(json, where); !status)
    return status.error();
  Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object())
    return Error{
        fmt::format("{}: not a JSON object; a plan looks like {{\"kerf\": 1, \"mesh\": {{\"data\": 2}}}}", where)};
  Reader in{where, json};
  Plan plan;
  bool versioned = false;
  if (root.contains("mesh")) // before "stages", whose numbers depend on it
    readMesh(in, root["mesh"], plan);
  for (const auto &[key, value] : root.items()) {
    if (key == "kerf") {
      versioned = true;
      in.count(value, "\"kerf\" (the version)", kPlanVersion, kPlanVersion);
    } else if (key == "mesh" || readExecution(in, key, value, plan)) {
      continue;
    } else if (key == "stages") {
      readStages(in, value, plan);
    } else if (key == "order") {
      plan.order = in.names(value, "\"order\"");
      if (std::set<std::string>(plan.order.begin(), plan.order.end()).size() != plan.order.size())
        in.fail("\"order\" names an axis twice; name each axis once");
      for (const std::string &axis : plan.order)
        if (planAxis(axis) < 0 && !plan.meshSizes.contains(axis))
          in.fail(fmt::format("\"order\" names \"{}\", which is no axis of the mesh; axes are {} and those of \"mesh\"",
                              axis, fmt::join(kPlanAxes, ", ")));
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
        in.fail(fmt::format("\"inputs\" is {}; it has to be an object, or leave it out", value.dump()));
      else {
        in.onlyKeys(value, "inputs", {"model_sha256", "cluster_sha256"});
        for (const char *name : {"model_sha256", "cluster_sha256"})
          if (value.contains(name) && !value[name].is_string())
            in.fail(fmt::format("inputs.{} is {}; it has to be text", name, value[name].dump()));
        if (!in.fault) {
          plan.modelHash = value.value("model_sha256", "");
          plan.clusterHash = value.value("cluster_sha256", "");
        }
      }
    } else if (std::find(std::begin(kKeptKeys), std::end(kKeptKeys), key) != std::end(kKeptKeys)) {
      plan.keptKeys[key] = value;
    } else if (std::find(std::begin(kTrainersKeys), std::end(kTrainersKeys), key) != std::end(kTrainersKeys)) {
      in.fail(fmt::format("{} ({}) is a habit of the trainer that runs a plan, not a decision of the plan; leave it "
                          "out, and give the trainer with <for>",
                          key, locateKey(json, key)));
    } else {
      in.unknownKey("", key, kTopLevelKeys);
    }
  }
  checkAxes(in, plan);
  if (!versioned)
    in.fail("\"kerf\": 1 is missing, the version of the format; add it");
  if (in.fault)
    return *in.fault;
  return plan;
}

Result<Plan> readPlan(const std::string &path) {
  auto text = readFile(path);
  return text ? parsePlan(*text, path) : Result<Plan>(text.error());
}

} // namespace kerf
