// SPDX-License-Identifier: Apache-2.0
#include "Options.h"
#include "Checks.h"
#include "kerf/Export/Export.h"
#include "kerf/Frontend/ReadSizes.h"
#include "kerf/PlanSearch/TrainerPins.h"
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
  if (auto factor = expertCapacityFrom(text))
    return *factor;
  throw CLI::ValidationError("--expert-capacity", fmt::format("'{}' is neither 'exact' nor a number above 0", text));
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
  auto group = parameterGroupFrom(text);
  if (!group)
    throw CLI::ValidationError("--group", group.error().message);
  return *group;
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
  command
      .add_option_function<std::vector<std::string>>(
          "--compress",
          [this](const std::vector<std::string> &texts) {
            compression.rules.clear();
            for (const std::string &text : texts) {
              if (text == "plan")
                throw CLI::ValidationError("--compress",
                                           "'plan' is for `kerf plan --compress plan -o plan.json`; then give "
                                           "`--constraints plan.json` or `--plan plan.json` here");
              auto rule = compressionRuleFrom(text);
              if (!rule)
                throw CLI::ValidationError("--compress", rule.error().message);
              compression.rules.push_back(*rule);
            }
          },
          "codec of the gradients that are summed over ranks (docs/compression.md): of large matrices, or of the "
          "parameters whose names match GLOB; the first option that matches a parameter applies, and the codec 'none' "
          "compresses nothing (repeatable)")
      ->type_name("CODEC|GLOB=CODEC");
  command
      .add_option_function<std::vector<std::string>>(
          "--codec",
          [this](const std::vector<std::string> &paths) {
            for (const std::string &path : paths) {
              auto codec = readCodecFile(path);
              if (!codec)
                throw CLI::ValidationError("--codec", codec.error().message);
              compression.texts.insert(*codec);
            }
          },
          "file of a codec of your own, which --compress can name (repeatable)")
      ->type_name("CODEC.mlir");
  command
      .add_option("--compress-gathers", compression.gathers,
                  "codec of the matrices that are gathered over ranks where parameters are sharded (optimizer sharding "
                  "3), such as int8")
      ->type_name("CODEC");
  command.add_flag("--allow-biased", compression.allowBiased,
                   "train with biased codecs without error feedback, and with codecs of signs without their momentum");
}

void PrecisionFlags::addTo(CLI::App &command) {
  command
      .add_option("--reduce-dtype", reduceDtype,
                  "with --dtype bf16, f16 or f8: type in which gradients are summed over ranks: f32 (default), or "
                  "compute for the type of --dtype")
      ->check(CLI::IsMember({"f32", "compute"}));
  command
      .add_option(
          "--loss-scale", lossScale,
          "with --dtype bf16, f16 or f8: factor by which the loss is multiplied before the backward pass, 'dynamic' or "
          "a number above 0; a step whose gradients overflow is skipped (default: dynamic for f16; for bf16 no scale "
          "and no check for overflow)")
      ->type_name("dynamic|NUMBER");
  command.add_option("--initial-loss-scale", initialLossScale,
                     "factor with which a dynamic loss scale starts, above 0 (default: 65536)");
  command.add_option("--loss-scale-window", lossScaleWindow,
                     "number of consecutive steps without overflow after which a dynamic loss scale doubles, 1 or more "
                     "(default: 2000)");
}

std::string PrecisionFlags::firstGivenOption() const {
  std::string name = firstGiven();
  return name.empty() ? name : "--" + name;
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

void addCompression(CLI::App &command, SearchSettings &search) {
  std::vector<std::string> codecs = compression::codecNames(), words = codecs;
  words.insert(words.begin(), {"plan", "none"});
  command
      .add_option(
          "--compress", search.compress,
          "compression of gradients on their way between ranks: plan chooses a codec for each gradient, or none "
          "where that is no slower; the name of a codec compresses all gradients but vectors, tables of "
          "embeddings and small ones (default: none, because compression changes the numbers; "
          "docs/compression-planning.md)")
      ->check(CLI::IsMember(words))
      ->type_name("plan|none|CODEC");
  command
      .add_option("--compress-codecs", search.compressCodecs,
                  "with --compress plan: name of a codec that may be chosen (repeatable; default: codecs that trained "
                  "as well as uncompressed gradients)")
      ->check(CLI::IsMember(codecs));
  command
      .add_option("--compress-ratio", search.compressRatio,
                  "with --compress plan: largest ratio of a gradient's bytes in f32 to its compressed bytes, 1 or more")
      ->check(finiteNumber(1));
  command
      .add_option("--compress-first-step", search.compressFirstStep,
                  "with --compress: number of the first training step that compresses (default: 0)")
      ->check(wholeNumber(0));
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
  auto wanted = wantedRanks();
  if (!wanted)
    return wanted.error();
  auto chosen = chooseCluster(cluster, job, *wanted, 1);
  if (chosen && runtime::resolveDevice(runsOn)) // a run reports the error of a device that there is not
    chosen->device.memoryDevice = runsOn;
  if (chosen)
    chosen->device.memoryDeterministic = deterministic;
  return chosen;
}

bool isInterrupted() {
  static std::once_flag listening;
  std::call_once(listening, [] { listenForSignals({SIGINT}); });
  return receivedSignal() != 0;
}

/// Leaves out of the search what the trainer of --for would refuse to run.
static Status addTargetRules(const ModelFlags &model, PlanRequest &request) {
  auto target = exportTarget(request.trainer->name);
  if (!target || !model.model.ends_with(".json"))
    return ok();
  auto sizes = readModelSizes(model.model, model.sequence);
  if (!sizes)
    return sizes.error();
  Plan &pins = request.options.constraints;
  if (Status status = adaptOffload(*request.trainer, sizes->layers, pins, request.options.constraintsFile); !status)
    return status;
  request.checkPlan = targetRulesOf(*target, std::move(*sizes), request.dtype);
  auto &attention = pins.attention;
  if (!attention && lacksFusedAttention(*target, request.cluster.device, request.dtype))
    attention = AttentionKernels::Unfused;
  return ok();
}

Result<PlanRequest> makePlanRequest(const ModelFlags &model, const PrecisionFlags &precision, const PlanFlags &flags,
                                    const Cluster &cluster) {
  Plan constraints;
  if (!flags.constraints.empty()) {
    auto plan = readPlan(flags.constraints);
    if (!plan)
      return plan.error();
    constraints = std::move(*plan);
  }
  auto request = kerf::makePlanRequest(model.model, {model, precision, flags, {}, {}}, cluster, std::move(constraints),
                                       flags.constraints);
  if (!request)
    return request;
  request->standIn = flags.cluster.empty();
  if (!flags.from.empty()) {
    auto from = readPlan(flags.from);
    if (!from)
      return from.error();
    request->from = std::move(*from);
  }
  request->stop = isInterrupted;
  if (Status status = addTargetRules(model, *request); !status)
    return status.error();
  return request;
}

} // namespace kerf::tool
