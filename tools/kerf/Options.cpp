// SPDX-License-Identifier: Apache-2.0
#include "Options.h"
#include "Checks.h"
#include "kerf/Support/Settings.h"
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

void say(const std::string &text) { std::fwrite(text.data(), 1, text.size(), stderr); }

static std::set<std::string, std::less<>> &knownOptions() {
  static std::set<std::string, std::less<>> names;
  return names;
}

void learnOptions(const CLI::App &app) {
  for (const CLI::App *command : app.get_subcommands(nullptr))
    for (const CLI::Option *option : command->get_options())
      knownOptions().insert(option->get_lnames().begin(), option->get_lnames().end());
}

std::string withOptions(const std::string &message) {
  return spellSettings(message, [](std::string_view name) {
    return knownOptions().contains(name) ? std::optional(fmt::format("--{}", name)) : std::nullopt;
  });
}

int fail(const Error &error) {
  if (error.message.empty()) // another process tells it
    return static_cast<int>(error.status);
  say(fmt::format("error: {}\n", withOptions(error.message)));
  return static_cast<int>(error.status);
}

/// 'exact' or a number above 0.
static double capacityFrom(const std::string &text) {
  if (text == "exact")
    return kExactExperts;
  double factor = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(factor) || factor <= 0)
    throw CLI::ValidationError("--expert-capacity", fmt::format("'{}' is neither 'exact' nor a number above 0", text));
  return factor;
}

/// Bytes per second and, behind a comma, seconds of latency.
static runtime::EmulatedLink linkFrom(const std::string &text) {
  constexpr double kLeastBytesPerSecond = 1e3, kMostSeconds = 60;
  runtime::EmulatedLink link;
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](double &value) {
    auto [next, code] = std::from_chars(at, end, value);
    at = next;
    return code == std::errc() && std::isfinite(value);
  };
  bool read = number(link.bytesPerSecond) && link.bytesPerSecond >= kLeastBytesPerSecond;
  if (read && at != end)
    read =
        *at++ == ',' && number(link.latencySeconds) && link.latencySeconds >= 0 && link.latencySeconds <= kMostSeconds;
  if (!read || at != end)
    throw CLI::ValidationError("--emulate-link",
                               fmt::format("'{}' is not BYTES_PER_SECOND (at least {}) or BYTES_PER_SECOND,SECONDS (of "
                                           "latency, 0 to {}), such as 1e9,5e-5",
                                           text, kLeastBytesPerSecond, kMostSeconds));
  return link;
}

/// "sgd (stochastic gradient descent, ...), adam (...)"
static std::string optimizersText() {
  std::string text;
  for (const OptimizerRecord &record : optimizers())
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", record.name, record.text);
  return text;
}

/// "decay of the mean of the gradients (default: adam, adamw, lamb 0.9)"
static std::string settingText(std::string_view name) {
  std::string text;
  std::vector<std::pair<double, std::string>> usual; // and the optimizers with this default
  for (const OptimizerRecord &record : optimizers())
    for (const OptimizerSetting &setting : record.settings) {
      if (setting.name != name)
        continue;
      text = setting.text;
      auto same = std::find_if(usual.begin(), usual.end(), [&](const auto &one) { return one.first == setting.usual; });
      if (same == usual.end())
        usual.emplace_back(setting.usual, record.name);
      else
        same->second += fmt::format(", {}", record.name);
    }
  std::vector<std::string> defaults;
  for (const auto &[value, names] : usual)
    defaults.push_back(fmt::format("{} {}", names, value));
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

/// "'cpu' (what it is), 'check' (what it is)"
static std::string devicesText() {
  std::string text;
  for (const runtime::DeviceKind *kind : runtime::deviceKinds())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", kind->kind, kind->what);
  return text;
}

CLI::Option *ModelFlags::addTo(CLI::App &command, std::vector<std::string> dtypes) {
  CLI::Option *required =
      command.add_option("MODEL", model, "model.onnx, a Hugging Face config.json, or model.mlir (kerf IR)")->required();
  command.add_option("--loss", loss,
                     "name of the loss, or \"cross_entropy(LOGITS, LABELS)\" to build one (default: the output 'loss', "
                     "else the first scalar output)");
  command.add_option("--metric", metrics, "adds the mean of this scalar output to each evaluation (repeatable)");
  command.add_option("--weights", weights, "initial weights by name instead of the model's own: .safetensors, .npz");
  command.add_option("--trainable", trainable,
                     "glob of initializers to train besides the exporter's parameters (repeatable)");
  command.add_option("--frozen", frozen, "glob of parameters not to train (repeatable)");
  addOptimizerTo(command);
  command.add_option("--no-decay", noDecay, "glob of parameters without weight decay (repeatable)");
  command.add_option("--clip-norm", clipNorm, "largest global norm of the gradients (0: no clipping)")
      ->capture_default_str();
  command.add_option("--dtype", dtype, fmt::format("floating type of the computation: {}", fmt::join(dtypes, ", ")))
      ->check(CLI::IsMember(dtypes))
      ->capture_default_str();
  CLI::Validator whole = wholeNumber(1);
  command
      .add_option("--global-batch", globalBatch,
                  "samples of one step, of a config.json (default 1); exports have fixed sizes")
      ->check(whole);
  command
      .add_option(
          "--sequence", sequence,
          "tokens of a sample, of a config.json (default: the model's positions, up to 2048); exports have fixed sizes")
      ->check(whole);
  command
      .add_option_function<std::string>(
          "--expert-capacity", [this](const std::string &text) { expertCapacity = capacityFrom(text); },
          "slots of an expert in each sample, of a config.json with experts: 'exact', as many as tokens (default), or "
          "a multiple of its equal share of the choices (simulate: 1); copies beyond them are dropped")
      ->type_name("exact|FACTOR");
  command.add_flag("--no-recognition", noRecognition,
                   "keep attention, normalization and GELU as the simple ops of the export");
  command.add_flag("--accept-folded", acceptFolded,
                   "train what is left of a model whose exporter folded parameters into constants or merged them "
                   "(docs/exporting.md)");
  return required;
}

/// "GLOB:lr=0.001,decay=0,optimizer=adamw"
static OptimizerGroup groupFrom(const std::string &text) {
  auto wrong = [&](const std::string &why) {
    return CLI::ValidationError(
        "--group", fmt::format("'{}': {}; such as \"*.bias:decay=0\" or \"lm_head.*:lr=1e-4\"", text, why));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    throw wrong("it is not GLOB:lr=X,decay=Y,optimizer=NAME");
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
      .add_option("--accumulate", accumulate,
                  "batches of one step: their gradients and losses are averaged before the update (default 1)")
      ->check(wholeNumber(1, int64_t{1} << 30));
  command
      .add_option_function<std::vector<std::string>>(
          "--group",
          [this](const std::vector<std::string> &texts) {
            groups.clear();
            for (const std::string &text : texts)
              groups.push_back(groupFrom(text));
          },
          "GLOB:lr=X,decay=Y,optimizer=NAME: learning rate, weight decay and optimizer of the parameters that GLOB "
          "matches, instead of --lr, --weight-decay and --optimizer; the first group that matches counts (repeatable)")
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
  // A plan's job may have settings of another optimizer; typed ones are refused before (Applies.h).
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
                  "with bf16 and f16: gradients are summed over ranks in f32 (default) or in --dtype (compute)")
      ->check(CLI::IsMember({"f32", "compute"}));
  command
      .add_option("--loss-scale", lossScale,
                  "what the loss is multiplied by for its gradients, 'dynamic' (default of f16) or a number; a step "
                  "whose gradients overflow is skipped (bf16 by default: no scale, no such check)")
      ->type_name("dynamic|NUMBER");
  command.add_option("--initial-loss-scale", initialLossScale, "first one of a dynamic loss scale (default 65536)");
  command.add_option("--loss-scale-window", lossScaleWindow,
                     "steps in a row without overflow after which a dynamic loss scale doubles (default 2000)");
}

std::string PrecisionFlags::given() const {
  return !reduceDtype.empty() ? "--reduce-dtype"
         : !lossScale.empty() ? "--loss-scale"
         : initialLossScale   ? "--initial-loss-scale"
         : lossScaleWindow    ? "--loss-scale-window"
                              : "";
}

/// A scale that f32 holds, and its inverse too.
static bool isScale(double scale) {
  return scale >= std::numeric_limits<float>::min() && scale <= 1 / double(std::numeric_limits<float>::min());
}

Result<std::optional<PrecisionOptions>> PrecisionFlags::toOptions(const std::string &dtype) const {
  if (dtype != "bf16" && dtype != "f16") {
    if (std::string option = given(); !option.empty())
      return Error{fmt::format("{} is for --dtype bf16 and f16; --dtype is {}", option, dtype)};
    return std::optional<PrecisionOptions>();
  }
  PrecisionOptions options;
  options.compute = dtype == "bf16" ? DType::BF16 : DType::F16;
  options.reduceInCompute = reduceDtype == "compute";
  bool dynamic = lossScale == "dynamic" || (lossScale.empty() && dtype == "f16");
  options.scaling = dynamic ? LossScaling::Dynamic : lossScale.empty() ? LossScaling::None : LossScaling::Static;
  if (!dynamic && (initialLossScale || lossScaleWindow))
    return Error{fmt::format(
        "{} is for a dynamic loss scale; {}", initialLossScale ? "--initial-loss-scale" : "--loss-scale-window",
        lossScale.empty() ? "give --loss-scale dynamic too" : fmt::format("--loss-scale is {}", lossScale))};
  if (options.scaling == LossScaling::Static) {
    auto [end, code] = std::from_chars(lossScale.data(), lossScale.data() + lossScale.size(), options.lossScale);
    if (code != std::errc() || end != lossScale.data() + lossScale.size() || !isScale(options.lossScale))
      return Error{
          fmt::format("--loss-scale: '{}' is neither 'dynamic' nor a number above 0 that f32 holds", lossScale)};
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
    if (!one.dated)
      today.emplace_back(one.name);
  command
      .add_option("--for", trainer,
                  fmt::format("who runs the plan: {}; a plan is searched among those that it can run, and priced as it "
                              "runs them (default: {}; docs/cost-model.md has more)",
                              fmt::join(today, ", "), ownTrainer().name))
      ->check(CLI::IsMember(trainerNames()));
}

void addMargin(CLI::App &command, std::optional<double> &margin) {
  command
      .add_option("--margin", margin,
                  "share of each device's memory that a plan leaves free (default: 0.05, on CPUs 0); --memory is taken "
                  "as it is")
      ->check(finiteNumber(0, 0.99));
}

void PlanFlags::addTo(CLI::App &command) {
  command.add_option("--cluster", cluster,
                     "cluster.json (ready ones stand in clusters/); default: CPU ranks of this machine");
  command
      .add_option("--ranks", ranks,
                  "use at most the first N ranks (default: all of the cluster, 1 of this machine); fewer where that is "
                  "faster")
      ->check(wholeNumber(1, int64_t{1} << 24));
  command.add_flag("--all-ranks", allRanks, "use all of the ranks also where fewer are faster");
  command
      .add_option("--search", search,
                  "placement: a strategy for every op on a mesh of data and model (default on CPUs); whole: stages, "
                  "microbatches, recomputation and sharding as well (default on other devices, and where the "
                  "constraints say any of these)")
      ->check(CLI::IsMember({"placement", "whole"}));
  addMargin(command, margin);
  command.add_option("--constraints", constraints, "partial plan.json: what it says stays");
  command.add_option("--memory", memory, "bytes that a rank may use, if less than its device has, such as 16GiB")
      ->transform(numberOfBytes());
  command
      .add_option("--mode", mode,
                  "auto (search everything), semi (the same, with pins), data (cut the batch only), stand-alone (one "
                  "rank), hybrid "
                  "(MODEL is a device program written by hand; nothing is planned)")
      ->check(CLI::IsMember({"auto", "semi", "data", "stand-alone", "hybrid"}))
      ->capture_default_str();
  command
      .add_option("--budget", budgetSeconds,
                  "search effort, in seconds of a 2020s core; the answer does not depend on this machine's speed")
      ->check(finiteNumber(0));
  command.add_option("--top", top, "runners-up in the report")->check(wholeNumber(0, 1000))->capture_default_str();
}

Result<Cluster> PlanFlags::toCluster() const {
  int64_t wanted = mode == "stand-alone" ? 1 : ranks;
  if (mode == "stand-alone" && ranks > 1)
    return Error{fmt::format("--mode stand-alone is one rank, --ranks is {}; drop one of them", ranks)};
  return machinesOf(cluster, job, wanted, 1);
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
      return Error{fmt::format("--mode {} means mesh.model = 1; {} says {}", mode, constraints, pinned->second)};
  }
  if (memory)
    options.memoryLimitBytes = memory;
  if (budgetSeconds > 0) // the default budget is about half a second
    options.workBudget =
        static_cast<int64_t>(std::min(1e18, 2 * budgetSeconds * static_cast<double>(SolveOptions().workBudget)));
  options.alternatives = static_cast<int>(top);
  options.allRanks = allRanks || mode == "stand-alone";
  options.margin = margin;
  return options;
}

/// Asked while a whole plan is searched: the first Ctrl-C asks for the best so far, the second one ends the program.
static bool isInterrupted() {
  static std::once_flag listening;
  std::call_once(listening, [] { listenForSignals({SIGINT}); });
  return receivedSignal() != 0;
}

Result<PlanRequest> planRequest(const ModelFlags &model, const PrecisionFlags &precision, const PlanFlags &flags,
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

void RunFlags::addKeptTo(CLI::App &command) {
  command.add_option("--lr", lr, "learning rate (default: 1e-3)")->check([](const std::string &text) {
    double rate = 0;
    const bool isRate = CLI::detail::lexical_cast(text, rate) && std::isfinite(rate) && rate >= 0;
    return isRate ? std::string() : fmt::format("'{}' is no finite number from 0 up", text);
  });
  command
      .add_option("--lr-schedule", schedule, "constant (default), linear (to 0) or cosine (to 0), after the warm-up")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}));
  command
      .add_option("--warmup", warmup,
                  "steps in which the learning rate rises from 0 to --lr: step s of W has lr * s / W")
      ->check(wholeNumber(0));
  command.add_option("--total", total, "steps at which the schedule ends (default: --steps)")->check(wholeNumber(1));
  command
      .add_option("--seed", seed,
                  "seed of dropout, and of the initial weights where the model has none (default 0; docs/runtime.md)")
      ->check(unsignedNumber());
}

void RunFlags::addTo(CLI::App &command) {
  command
      .add_option(
          "--data", data,
          ".npz, folder of .npy, or folder of .npz or .npy shards: for each model input an array with a leading "
          "axis of steps (docs/training.md)")
      ->required();
  command.add_flag("--samples", samples,
                   "the arrays of --data have a leading axis of samples; batches are made of them");
  command.add_flag("--shuffle", shuffle,
                   "take the batches (with --samples: the samples) in an order made from --seed, another in each pass");
  command.add_option("--eval-data", evalData,
                     "held-out data, as --data: its mean loss is reported and nothing trained");
  command
      .add_option("--eval-every", evalEvery,
                  "steps from one evaluation to the next (default: after the last step alone)")
      ->check(wholeNumber(1));
  command.add_option("--eval-steps", evalSteps, "batches of --eval-data in each evaluation (default: all)")
      ->check(wholeNumber(1));
  command
      .add_option("--steps", steps,
                  "training steps, those before a checkpoint included (default: as many as the data has)")
      ->check(wholeNumber(1));
  addKeptTo(command);
  command
      .add_option("--threads", threads, "of each rank, for its kernels (default: 1); the numbers do not depend on it")
      ->check(wholeNumber(1, 1024));
  command.add_option("--device", device, fmt::format("what each rank runs on: {}", devicesText()));
  command.add_flag("--deterministic", deterministic,
                   "collectives add in order of the ranks, so that a run has the same bits every time; a device that "
                   "cannot do so is refused");
  command.add_option("--save", save, "write the trained weights: OUT.safetensors");
  command.add_option("--save-hf", saveHf,
                     "write the trained weights as a Hugging Face folder: config.json and model.safetensors");
  command.add_option("--hf-config", hfConfig, "config.json for --save-hf (default: that of MODEL)");
  command.add_option("--checkpoint", checkpoint,
                     "folder to write checkpoints in, as training goes (docs/checkpoints.md)");
  command
      .add_option("--every", every, "steps from one checkpoint to the next (default: 100); the last step has one too")
      ->check(wholeNumber(1));
  command.add_option("--keep", keep, "newest checkpoints that stay (default: 2)")->check(wholeNumber(1));
  command.add_option("--resume", resume,
                     "go on from the last checkpoint in this folder, whatever plan it was made with; schedule and seed "
                     "are its own unless given");
  command
      .add_option(
          "--on-nan", onNan,
          "after a step whose loss is infinite or NaN: stop, and keep the last checkpoint; skip, which takes the "
          "step back; continue")
      ->check(CLI::IsMember({"stop", "skip", "continue"}))
      ->capture_default_str();
  command.add_option("--log", log, "write one JSON object a step: losses.jsonl");
  command.add_option("--trace", trace, "write the last step's timeline for chrome://tracing or Perfetto: T.json");
  command.add_option_function<std::string>(
      "--emulate-link", [this](const std::string &text) { link = linkFrom(text); },
      "ranks that are threads exchange messages as if over a link of BYTES_PER_SECOND[,SECONDS of latency], which "
      "takes "
      "no core");
  command.add_option("--gradient-norms", gradientNorms, "write the L2 norm of each gradient at the first step: F.json");
}

} // namespace kerf::tool
