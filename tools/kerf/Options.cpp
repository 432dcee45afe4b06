// SPDX-License-Identifier: Apache-2.0
#include "Options.h"
#include "Checks.h"
#include "kerf/Support/Signals.h"

#include <charconv>
#include <cmath>
#include <csignal>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

namespace kerf::tool {

/// Reads the value of --expert-capacity: 'exact' (no limit) or a number above 0.
static double capacityFrom(const std::string &text) {
  if (text == "exact")
    return kExactExperts;
  double factor = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(factor) || factor <= 0)
    throw CLI::ValidationError("--expert-capacity", fmt::format("'{}' is neither 'exact' nor a number above 0", text));
  return factor;
}

/// Returns the help text of --optimizer: "sgd (stochastic gradient descent, ...); adam (...)".
static std::string optimizersText() {
  std::string text;
  for (const OptimizerRecord &record : optimizers())
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", record.name, record.helpText);
  return text;
}

/// Returns the help text of one optimizer setting with its defaults: "decay of the mean of the gradients (default: 0.9
/// with adam, adamw, lamb)"
static std::string settingText(std::string_view name) {
  std::string text;
  std::vector<std::pair<double, std::string>> usual; // and the optimizers with this default
  for (const OptimizerRecord &record : optimizers())
    for (const OptimizerSetting &setting : record.settings) {
      if (setting.name != name)
        continue;
      text = setting.helpText;
      auto same =
          std::find_if(usual.begin(), usual.end(), [&](const auto &one) { return one.first == setting.defaultValue; });
      if (same == usual.end())
        usual.emplace_back(setting.defaultValue, record.name);
      else
        same->second += fmt::format(", {}", record.name);
    }
  std::vector<std::string> defaults;
  for (const auto &[value, names] : usual)
    defaults.push_back(fmt::format("{} with {}", value, names));
  return fmt::format("{} (default: {})", text, fmt::join(defaults, "; "));
}

void ModelFlags::addOptimizerTo(CLI::App &command) {
  std::vector<std::string> names;
  for (const OptimizerRecord &record : optimizers())
    names.emplace_back(record.name);
  command.add_option("--optimizer", optimizer, optimizersText())->check(CLI::IsMember(names))->capture_default_str();
  for (const OptimizerSetting &setting : allSettings()) {
    std::string name = setting.name, text = settingText(setting.name);
    if (setting.kind == SettingKind::Switch)
      command.add_flag_function(
          fmt::format("--{0},!--no-{0}", name), [this, name](int64_t count) { settings[name] = count > 0; }, text);
    else
      command.add_option_function<double>(
          "--" + name, [this, name](const double &value) { settings[name] = value; }, text);
  }
}

CLI::Option *ModelFlags::addTo(CLI::App &command, std::vector<std::string> dtypes) {
  CLI::Option *required = command
                              .add_option("MODEL", model,
                                          "the model: an ONNX export model.onnx, a Hugging Face config.json, or "
                                          "model.mlir (StableHLO text or kerf IR)")
                              ->required();
  command.add_option(
      "--loss", loss,
      "name of the output to minimize, or \"cross_entropy(LOGITS, LABELS)\" to add a mean cross entropy of two "
      "outputs (default: the output named 'loss', or else the first scalar output)");
  command.add_option("--metric", metrics,
                     "name of another scalar output of an export, whose mean each evaluation reports (repeatable)");
  command.add_option(
      "--weights", weights,
      "file of initial weights that replace the model's own tensors of the same names: .safetensors, .npz, a folder of "
      ".npy files or a Hugging Face folder");
  command.add_option(
      "--trainable", trainable,
      "glob pattern of tensor names: train these tensors too, besides the parameters that the exporter marked "
      "(repeatable)");
  command.add_option("--frozen", frozen, "glob pattern of tensor names: keep these parameters constant (repeatable)");
  addOptimizerTo(command);
  command.add_option("--no-decay", noDecay,
                     "glob pattern of tensor names: apply no weight decay to these parameters (repeatable)");
  command
      .add_option("--clip-norm", clipNorm,
                  "scale the gradients down so that their global L2 norm is at most this number (0: no clipping)")
      ->capture_default_str();
  command
      .add_option("--dtype", dtype, fmt::format("floating-point type of the computation: {}", fmt::join(dtypes, ", ")))
      ->check(CLI::IsMember(dtypes))
      ->capture_default_str();
  CLI::Validator whole = wholeNumber(1);
  command
      .add_option(
          "--global-batch", globalBatch,
          "samples in one training step of a config.json's model, 1 or more (default: 1); an export has a fixed batch")
      ->check(whole);
  command
      .add_option("--sequence", sequence,
                  "tokens in one sample of a config.json's model, 1 or more (default: the model's maximum positions, "
                  "but at most "
                  "2048); an export has a fixed length")
      ->check(whole);
  command
      .add_option_function<std::string>(
          "--expert-capacity", [this](const std::string &text) { expertCapacity = capacityFrom(text); },
          "capacity of each expert of a config.json's mixture-of-experts model: 'exact' drops no token (default of "
          "training); FACTOR above 0 gives each expert FACTOR times its equal share of the sample's routed tokens "
          "(default of predictions: 1), and tokens routed beyond an expert's capacity are dropped")
      ->type_name("exact|FACTOR");
  command.add_flag(
      "--no-recognition", noRecognition,
      "keep attention, normalization and GELU as the elementary operators of the export, instead of one fused "
      "operator for each");
  command.add_flag(
      "--accept-folded", acceptFolded,
      "train the remaining parameters of a model whose exporter folded some parameters into constants or merged "
      "them; without this option such a model is refused (docs/exporting.md)");
  return required;
}

/// Reads one value of --group: "GLOB:lr=0.001,decay=0,optimizer=adamw".
static OptimizerGroup groupFrom(const std::string &text) {
  auto wrong = [&](const std::string &why) {
    return CLI::ValidationError(
        "--group", fmt::format("'{}': {}; such as \"*.bias:decay=0\" or \"lm_head.*:lr=1e-4\"", text, why));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    throw wrong("a group has the form GLOB:lr=X,decay=Y,optimizer=NAME");
  OptimizerGroup group{text.substr(0, colon), {}, {}, {}};
  for (size_t at = colon + 1; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = std::min(part.find('='), part.size());
    const std::string key = part.substr(0, equals), number = part.substr(std::min(equals + 1, part.size()));
    if (key == "optimizer") {
      if (!group.optimizer.empty())
        throw wrong("optimizer is given twice");
      if (!findOptimizer(number))
        throw wrong(fmt::format("there is no optimizer '{}': there are {}", number, optimizerNames()));
      group.optimizer = number;
      at = end + 1;
      continue;
    }
    double value = 0;
    auto [next, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (key != "lr" && key != "decay")
      throw wrong(fmt::format("there is no '{}': a group has lr, decay and optimizer", key));
    if (number.empty() || code != std::errc() || next != number.data() + number.size() || !std::isfinite(value) ||
        value < 0)
      throw wrong(fmt::format("{} is '{}', not a number of 0 or more", key, number));
    std::optional<double> &own = key == "lr" ? group.learningRate : group.weightDecay;
    if (own)
      throw wrong(fmt::format("{} is given twice", key));
    own = value;
    at = end + 1;
  }
  return group;
}

void ModelFlags::addTrainingTo(CLI::App &command) {
  command
      .add_option(
          "--accumulate", accumulate,
          "gradient accumulation: number of batches whose gradients and losses are averaged for one update, 1 or "
          "more (default: 1)")
      ->check(wholeNumber(1, int64_t{1} << 30));
  command
      .add_option_function<std::vector<std::string>>(
          "--group",
          [this](const std::vector<std::string> &texts) {
            groups.clear();
            for (const std::string &text : texts)
              groups.push_back(groupFrom(text));
          },
          "parameter group: use this learning rate, weight decay and optimizer for the parameters whose names match "
          "GLOB, instead of --lr, --weight-decay and --optimizer; each of the three keys is optional, and the first "
          "group that matches a parameter applies (repeatable)")
      ->type_name("GLOB:lr=X,decay=Y,optimizer=NAME");
}

StepOptions ModelFlags::toStepOptions() const {
  StepOptions options;
  options.import.floatType = dtype == "f64" ? DType::F64 : DType::F32;
  options.import.loss = loss;
  options.import.metrics = metrics;
  options.import.trainable = trainable;
  options.import.frozen = frozen;
  if (!weights.empty())
    options.import.weights = weights;
  options.import.globalBatch = globalBatch;
  options.import.sequence = sequence;
  options.import.expertCapacity = expertCapacity;
  OptimizerOptions &o = options.optimizer;
  o.optimizer = optimizer;
  o.noDecayGlobs = noDecay;
  o.groups = groups;
  // The job of a plan may have settings of another optimizer, which are left out here. Settings typed for another
  // optimizer have been refused before (IneffectiveOptions.h).
  for (const OptimizerRecord *record : optimizersOf(o))
    for (const OptimizerSetting &setting : record->settings)
      if (auto given = settings.find(setting.name); given != settings.end())
        o.settings.insert(*given);
  o.accumulate = accumulate;
  o.clipNorm = clipNorm;
  options.recognizeComposites = !noRecognition;
  options.acceptFolded = acceptFolded;
  return options;
}

void PrecisionFlags::addTo(CLI::App &command) {
  command
      .add_option("--reduce-dtype", reduceDtype,
                  "with --dtype bf16, f16 or f8: type in which gradients are summed over ranks: f32 (default), or "
                  "compute for the "
                  "type of --dtype")
      ->check(CLI::IsMember({"f32", "compute"}));
  command
      .add_option(
          "--loss-scale", lossScale,
          "with --dtype bf16, f16 or f8: factor by which the loss is multiplied before the backward pass, 'dynamic' or "
          "a "
          "number above 0; a step whose gradients overflow is skipped (default: dynamic for f16; for bf16 no scale "
          "and no check for overflow)")
      ->type_name("dynamic|NUMBER");
  command.add_option("--initial-loss-scale", initialLossScale,
                     "factor with which a dynamic loss scale starts, above 0 (default: 65536)");
  command.add_option("--loss-scale-window", lossScaleWindow,
                     "number of consecutive steps without overflow after which a dynamic loss scale doubles, 1 or more "
                     "(default: 2000)");
}

std::string PrecisionFlags::firstGivenOption() const {
  return !reduceDtype.empty() ? "--reduce-dtype"
         : !lossScale.empty() ? "--loss-scale"
         : initialLossScale   ? "--initial-loss-scale"
         : lossScaleWindow    ? "--loss-scale-window"
                              : "";
}

/// Returns whether f32 can represent `scale` and its inverse as normal numbers.
static bool isScale(double scale) {
  return scale >= std::numeric_limits<float>::min() && scale <= 1 / double(std::numeric_limits<float>::min());
}

Result<std::optional<PrecisionOptions>> PrecisionFlags::toOptions(const std::string &dtype) const {
  if (dtype != "bf16" && dtype != "f16" && dtype != "f8") {
    if (std::string option = firstGivenOption(); !option.empty())
      return Error{fmt::format("{} is for --dtype bf16, f16 and f8; --dtype is {}, so leave {} out or change --dtype",
                               option, dtype, option)};
    return std::optional<PrecisionOptions>();
  }
  PrecisionOptions options;
  options.compute = dtype == "f16" ? DType::F16 : DType::BF16;
  options.quantizeProducts = dtype == "f8";
  options.reduceInCompute = reduceDtype == "compute";
  bool dynamic = lossScale == "dynamic" || (lossScale.empty() && dtype == "f16");
  options.scaling = dynamic ? LossScaling::Dynamic : lossScale.empty() ? LossScaling::None : LossScaling::Static;
  if (!dynamic && (initialLossScale || lossScaleWindow))
    return Error{fmt::format(
        "{} is for a dynamic loss scale; {}", initialLossScale ? "--initial-loss-scale" : "--loss-scale-window",
        lossScale.empty() ? "give --loss-scale dynamic too"
                          : fmt::format("--loss-scale is {}, so give --loss-scale dynamic instead", lossScale))};
  if (options.scaling == LossScaling::Static) {
    auto [end, code] = std::from_chars(lossScale.data(), lossScale.data() + lossScale.size(), options.lossScale);
    if (code != std::errc() || end != lossScale.data() + lossScale.size() || !isScale(options.lossScale))
      return Error{fmt::format(
          "--loss-scale: '{}' is neither 'dynamic' nor a number above 0 that f32 holds; give one of the two",
          lossScale)};
  }
  options.lossScale = initialLossScale.value_or(options.lossScale);
  options.lossScaleWindow = lossScaleWindow.value_or(options.lossScaleWindow);
  if (!isScale(options.lossScale))
    return Error{
        fmt::format("--initial-loss-scale is {}; it must be a number above 0 that f32 holds", options.lossScale)};
  if (options.lossScaleWindow < 1)
    return Error{fmt::format("--loss-scale-window is {}; it must be 1 or more", options.lossScaleWindow)};
  return std::optional(options);
}

void addTrainer(CLI::App &command, std::string &trainer) {
  std::vector<std::string> today;
  for (const Trainer &one : trainers())
    if (!one.historical)
      today.emplace_back(one.name);
  command
      .add_option(
          "--for", trainer,
          fmt::format(
              "the training system that will run the plan: {}; step times are predicted for this system, and a search "
              "tries only plans that it can run (default: {}; docs/cost-model.md lists versions)",
              fmt::join(today, ", "), ownTrainer().name))
      ->check(CLI::IsMember(trainerNames()));
}

void addMargin(CLI::App &command, std::optional<double> &margin) {
  command
      .add_option(
          "--margin", margin,
          "fraction of each device's memory that a plan must leave free, 0 to 0.99 (default: 0.05 on accelerators, 0 "
          "on CPUs); a memory limit that is given in bytes has no margin")
      ->check(finiteNumber(0, 0.99));
}

void PlanFlags::addTo(CLI::App &command) {
  command.add_option("--cluster", cluster, kClusterHelp);
  command
      .add_option(
          "--ranks", ranks,
          "use at most the first N ranks, 1 or more (default: all ranks of the cluster file; 1 rank of this machine "
          "without a cluster file); the plan uses fewer ranks where that makes a step faster")
      ->check(wholeNumber(1, int64_t{1} << 24));
  command.add_flag("--all-ranks", allRanks, "use all of the ranks, even where fewer ranks would make a step faster");
  command
      .add_option(
          "--search", search,
          "what the search decides: placement chooses how each operator is sharded on a mesh of the axes data and "
          "model (default on CPUs); whole also chooses pipeline stages, microbatches, recomputation and optimizer "
          "sharding (default on other devices, and where the constraints set any of these)")
      ->check(CLI::IsMember({"placement", "whole"}));
  addMargin(command, margin);
  command.add_option("--constraints", constraints,
                     "plan.json with gaps: the search keeps the decisions in this file and fills in the others");
  command
      .add_option("--memory", memory,
                  "memory limit of each rank in bytes, or with a unit such as 16GiB, 1 or more (default: the memory of "
                  "its device "
                  "less --margin)")
      ->transform(numberOfBytes());
  command
      .add_option(
          "--mode", mode,
          "kind of parallelization: auto searches all decisions; semi searches the decisions that --constraints or "
          "annotations in the model leave open; data shards only the batch (data parallelism); stand-alone uses one "
          "rank; hybrid searches nothing and runs MODEL as a device program written by hand")
      ->check(CLI::IsMember({"auto", "semi", "data", "stand-alone", "hybrid"}))
      ->capture_default_str();
  command
      .add_option(
          "--budget", budgetSeconds,
          "search effort, in seconds on one CPU core of the 2020s, 0 or more; the effort is counted in work, so the "
          "plan does not depend on the speed of this machine (default: about 0.5 seconds for each mesh with --search "
          "placement, and 4 million evaluated choices with --search whole)")
      ->check(finiteNumber(0));
  command.add_option("--top", top, "number of next-best plans listed in the report, 0 to 1000")
      ->check(wholeNumber(0, 1000))
      ->capture_default_str();
}

Result<Cluster> PlanFlags::toCluster() const {
  int64_t wanted = mode == "stand-alone" ? 1 : ranks;
  if (mode == "stand-alone" && ranks > 1)
    return Error{fmt::format("--mode stand-alone uses one rank, but --ranks is {}; leave one of the two out", ranks)};
  auto chosen = chooseCluster(cluster, job, wanted, 1);
  if (chosen && runtime::resolveDevice(runsOn)) // a run reports the error of a device that there is not
    chosen->device.memoryDevice = runsOn;
  if (chosen)
    chosen->device.memoryDeterministic = deterministic;
  return chosen;
}

Result<PlanOptions> PlanFlags::toPlanOptions() const {
  PlanOptions options;
  if (!constraints.empty()) {
    auto plan = readPlan(constraints);
    if (!plan)
      return plan.error();
    options.constraints = std::move(*plan);
    options.constraintsFile = constraints;
  }
  if (mode == "data" || mode == "stand-alone") {
    auto [pinned, isNew] = options.constraints.meshSizes.try_emplace("model", 1);
    if (pinned->second != 1)
      return Error{fmt::format("--mode {} needs mesh.model = 1, but {} sets mesh.model to {}; change one of the two",
                               mode, constraints, pinned->second)};
  }
  if (memory)
    options.memoryLimitBytes = memory;
  if (budgetSeconds > 0) // the solver's default budget takes about half a second, so one second is two of them
    options.workBudget =
        static_cast<int64_t>(std::min(1e18, 2 * budgetSeconds * static_cast<double>(SolveOptions().workBudget)));
  options.alternatives = static_cast<int>(top);
  options.allRanks = allRanks || mode == "stand-alone";
  options.margin = margin;
  return options;
}

/// Returns whether the user has pressed Ctrl-C during a search over whole plans. The first Ctrl-C ends the search with
/// the best plan so far; a second one ends the program.
static bool isInterrupted() {
  static std::once_flag listening;
  std::call_once(listening, [] { listenForSignals({SIGINT}); });
  return receivedSignal() != 0;
}

Result<PlanRequest> makePlanRequest(const ModelFlags &model, const PrecisionFlags &precision, const PlanFlags &flags,
                                    const Cluster &cluster) {
  auto options = flags.toPlanOptions();
  if (!options)
    return options.error();
  auto mixed = precision.toOptions(model.dtype);
  if (!mixed)
    return mixed.error();
  PlanRequest request{model.model, model.toStepOptions(), model.dtype, cluster, std::move(*options)};
  request.step.precision = *mixed;
  if (!flags.search.empty())
    request.search = flags.search == "whole" ? SearchKind::Whole : SearchKind::Placement;
  if (!flags.trainer.empty())
    request.trainer = findTrainer(flags.trainer);
  request.dataOnly = flags.mode == "data" || flags.mode == "stand-alone";
  request.standIn = flags.cluster.empty();
  request.seconds = flags.budgetSeconds;
  if (!flags.from.empty()) {
    auto from = readPlan(flags.from);
    if (!from)
      return from.error();
    request.from = std::move(*from);
  }
  request.stop = isInterrupted;
  return request;
}

} // namespace kerf::tool
