// SPDX-License-Identifier: Apache-2.0
#include "kerf/Export/Export.h"
#include "Rules.h"
#include "View.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>

namespace kerf {

using namespace exporting;

namespace {

/// A target: its names, the source of the names of its settings, the settings that a plan lacks, and its table.
struct Target {
  ExportTarget target;
  const char *name, *title, *file; // name for --to, name of the project, and default name of the configuration file
  const char *trainer;             // name of the trainer's record whose prices apply; nullptr: none is known
  const char *names;               // source in which the names of arguments and keys were looked up
  const char *missing;             // settings that the user must add
  const Table &(*table)();
};

/// Returns one record for each target.
const std::vector<Target> &targets() {
  static const std::vector<Target> table = {
      {ExportTarget::Megatron, "megatron", "Megatron-LM", "megatron.sh", "megatron",
       "megatron/training/arguments.py of Megatron-LM core_v0.19.2 (2026)",
       "DATA_PATH, TOKENIZER_MODEL, LEARNING_RATE, STEPS and OUTPUT, variables at the top, or MOCK_DATA=1",
       megatronTable},
      {ExportTarget::TorchTitan, "torchtitan", "TorchTitan", "torchtitan.toml", "torchtitan",
       "torchtitan/config/job_config.py of the 0.2 releases; for 0.3 there is the target torchtitan-0.3",
       "model.hf_assets_path, training.dataset, training.steps, optimizer.lr, lr_scheduler", torchTitanTable},
      {ExportTarget::TorchTitanPython, "torchtitan-0.3", "TorchTitan 0.3", "torchtitan_job.py", "torchtitan-0.3",
       "torchtitan/config/configs.py and torchtitan/trainer.py of TorchTitan 0.3.0",
       "the variables at the top: TOKENIZER, DATASET, LEARNING_RATE, STEPS, OUTPUT", torchTitanPythonTable},
      {ExportTarget::DeepSpeed, "deepspeed", "DeepSpeed", "ds_config.json", "deepspeed",
       "DeepSpeed's page on its configuration JSON, and megatron/arguments.py of Megatron-DeepSpeed (commit "
       "207b2d5aad1e)",
       "data and tokenizer (--data-path, --tokenizer-type, ...), learning rate (--lr, ...; optimizer.params.lr where "
       "DeepSpeed makes the optimizer), --train-iters",
       deepSpeedTable},
      {ExportTarget::NeMo, "nemo", "NeMo", "nemo.yaml", "nemo",
       "examples/nlp/language_modeling/megatron_gpt_pretraining.py of NeMo 1 (framework 24.07) and its configurations; "
       "NeMo 2 is configured in Python",
       "exp_manager, model.tokenizer, model.data.data_prefix, model.optim.lr and model.optim.sched, trainer.max_steps",
       nemoTable},
      {ExportTarget::Accelerate, "accelerate", "Accelerate", "accelerate.yaml", nullptr,
       "accelerate/commands/launch.py and parallelism_config.py of Accelerate 1.15, and TrainingArguments of "
       "Transformers 5.24",
       "the program, its model and data, --learning_rate, --max_steps", accelerateTable},
      {ExportTarget::Transformers, "transformers", "Transformers", "distributed_config.json", nullptr,
       "DistributedConfig and TrainingArguments of Transformers 5.24",
       "the program, which loads the model with this configuration, its data, --learning_rate, --max_steps",
       transformersTable},
      {ExportTarget::Nanotron, "nanotron", "Nanotron", "nanotron.yaml", nullptr,
       "src/nanotron/config of Nanotron, 2025 (commit 6b2ff6502c1e)",
       "general.project, model.init_method, tokenizer, data_stages, tokens.train_steps, "
       "optimizer.learning_rate_scheduler, checkpoints",
       nanotronTable},
      {ExportTarget::MsSwift, "ms-swift", "ms-swift", "ms_swift.sh", "megatron",
       "swift/megatron/arguments/megatron_args.py of ms-swift, 2026 (commit 006938be6c7c)",
       "MODEL, DATASET, LEARNING_RATE, STEPS and OUTPUT, variables at the top", msSwiftTable},
      {ExportTarget::MegatronBridge, "megatron-bridge", "Megatron Bridge", "megatron_bridge_job.py", "megatron",
       "megatron/bridge/training/config.py of Megatron Bridge 0.6.2, and Megatron Core 0.19.2",
       "DATA_PATH, TOKENIZER_MODEL, LEARNING_RATE, WARMUP_STEPS, STEPS and OUTPUT, variables at the top, or "
       "MOCK_DATA=1",
       megatronBridgeTable},
      {ExportTarget::MindSpeed, "mindspeed", "MindSpeed", "mindspeed.sh", "mindspeed",
       "mindspeed/features_manager of MindSpeed, 2025 (README of commit 005894b8e999, features of commit "
       "010c43dfee81), "
       "and Megatron-LM core_r0.12.0 (commit a845aa7e)",
       "DATA_PATH, TOKENIZER_MODEL, LEARNING_RATE, STEPS and OUTPUT, variables at the top, or MOCK_DATA=1",
       mindSpeedTable},
      {ExportTarget::MindSpore, "mindspore", "MindSpore", "mindspore_parallel.py", nullptr,
       "mindspore/parallel (Layout, auto_parallel.AutoParallel, nn.Pipeline) of MindSpore 2.10.0",
       "your network, whose primitives get their roles by shard(), its optimizer and its data", mindSporeTable},
  };
  return table;
}

const Target &describe(ExportTarget target) {
  const std::vector<Target> &table = targets();
  return *std::find_if(table.begin(), table.end(), [&](const Target &row) { return row.target == target; });
}

const Row *rowOf(const Table &table, const std::string &key) {
  auto found = std::find_if(table.begin(), table.end(), [&](const Row &row) { return key == row.key; });
  return found == table.end() ? nullptr : &*found;
}

std::string devicesOf(const Cluster &mixed) {
  std::vector<std::string> groups;
  for (const Cluster &group : mixed.groups)
    groups.push_back(fmt::format("{} {}", group.ranks(), group.device.name));
  return fmt::format("{}", fmt::join(groups, ", "));
}

/// Returns the line of the head with the predicted figures.
std::string predictionLine(const Target &target, const ExportPrediction &predicted) {
  return fmt::format("Expected as written: {:.4g} s a step, {:.4g} tokens/s, {:.1f} of {:.1f} GiB on the fullest "
                     "device (kerf simulate --for {}).",
                     predicted.stepSeconds, predicted.tokensPerSecond, predicted.deviceBytes / (1 << 30),
                     predicted.limitBytes / (1 << 30), target.trainer);
}

std::vector<std::string> headOf(const Target &target, const View &view, const Draft &draft,
                                const std::optional<ExportPrediction> &predicted) {
  std::vector<std::string> head = {
      fmt::format("{} for {} on {} ranks of {}, by kerf export.", target.title, view.in.job.model, view.ranks,
                  view.in.completed.cluster.name),
      fmt::format("Names of settings are from {}.", target.names),
      fmt::format("No plan has these, so set them: {}; on several nodes also NODE_RANK and MASTER_ADDR, if no "
                  "scheduler does.",
                  target.missing),
  };
  if (predicted)
    head.push_back(predictionLine(target, *predicted));
  bool any = false;
  for (const ExportDecision &decision : draft.decisions)
    if (decision.kind == ExportDecision::Kind::Differs) {
      if (!any)
        head.insert(head.end(), {"", "Not as planned:"});
      any = true;
      head.push_back(fmt::format("  {} = {}: {}", decision.key, decision.value, decision.text));
    }
  return head;
}

/// The variables of a run of Megatron-LM, and the arguments that they become. The tokenizer of mock data has one word
/// more than --vocab-size says.
std::string megatronVariables(int64_t vocabulary) {
  std::string words = vocabulary ? fmt::format(" --vocab-size {}", vocabulary - 1) : "";
  return R"(# Set these for your run, here or as variables of the environment.
: "${LEARNING_RATE:=3e-4}" "${STEPS:=1000}" "${OUTPUT:=output}"
: "${DATA_PATH:=}" "${TOKENIZER_TYPE:=HuggingFaceTokenizer}" "${TOKENIZER_MODEL:=}"
if [ "${MOCK_DATA:-0}" = 1 ]; then # ten steps on mock data
  set -- --mock-data --tokenizer-type NullTokenizer)" +
         words + R"( --train-iters 10 --log-interval 1 --eval-iters 0 "$@"
else
  : "${DATA_PATH:?the prefix of the tokenized data, or MOCK_DATA=1}" "${TOKENIZER_MODEL:?the tokenizer}"
  set -- --data-path "$DATA_PATH" --split 99,1,0 --tokenizer-type "$TOKENIZER_TYPE" \
    --tokenizer-model "$TOKENIZER_MODEL" --train-iters "$STEPS" --log-interval 10 \
    --save "$OUTPUT" --save-interval 500 "$@"
fi
set -- --lr "$LEARNING_RATE" --lr-decay-style cosine "$@"
)";
}

/// MindSpeed works by an import at the head of Megatron-LM's program.
constexpr const char *kMindSpeedCheck = R"(if ! grep -q mindspeed.megatron_adaptor pretrain_gpt.py; then
  echo "start this in Megatron-LM's folder, and add the line 'import mindspeed.megatron_adaptor' behind 'import torch' of pretrain_gpt.py" >&2
  exit 1
fi
)";

constexpr const char *kSwiftVariables = R"(# Set these for your run, here or as variables of the environment.
: "${MODEL:?the name or folder of the checkpoint}" "${DATASET:?the name or folder of the data}"
: "${LEARNING_RATE:=1e-5}" "${STEPS:=1000}" "${OUTPUT:=output}"
set -- --model "$MODEL" --dataset "$DATASET" --lr "$LEARNING_RATE" --train_iters "$STEPS" --output_dir "$OUTPUT" "$@"
)";

/// Returns torchrun with its options: of several nodes, each is started with its number and the address of the first.
std::string torchrunText(const View &view) {
  int64_t nodes = (view.ranks + view.devicesPerNode - 1) / view.devicesPerNode;
  return nodes == 1 ? "torchrun --nnodes {} --nproc-per-node {} "
                    : "torchrun --nnodes {} --nproc-per-node {} --node-rank \"$NODE_RANK\" --master-addr "
                      "\"$MASTER_ADDR\" --master-port \"${{MASTER_PORT:-29500}}\" ";
}

/// Returns a check of the variables of several nodes.
std::string nodesText(const View &view) {
  return view.ranks <= view.devicesPerNode
             ? ""
             : ": \"${NODE_RANK:?the number of this node, from 0}\" \"${MASTER_ADDR:?the address of node 0}\"\n";
}

/// Returns the launch command: environment variables, launcher with nodes and devices, and program.
std::string launchLine(const View &view, const Draft &draft, const std::string &launcher, const std::string &program) {
  std::string line;
  for (const auto &[name, value] : draft.environment)
    line += fmt::format("{}={} ", name, value);
  int64_t nodes = (view.ranks + view.devicesPerNode - 1) / view.devicesPerNode;
  return line + fmt::format(fmt::runtime(launcher), nodes, view.devicesPerNode) + program;
}

} // namespace

std::string_view toString(ExportTarget target) { return describe(target).name; }

std::string_view exportFileName(ExportTarget target) { return describe(target).file; }

const std::vector<ExportTarget> &exportTargets() {
  static const std::vector<ExportTarget> all = [] {
    std::vector<ExportTarget> found;
    for (const Target &target : targets())
      found.push_back(target.target);
    return found;
  }();
  return all;
}

std::optional<ExportTarget> exportTarget(std::string_view name) {
  for (ExportTarget target : exportTargets())
    if (toString(target) == name)
      return target;
  return std::nullopt;
}

std::vector<std::string> exportKeys(ExportTarget target) {
  std::vector<std::string> keys;
  for (const Table *table : {&describe(target).table(), &commonTable()})
    for (const Row &row : *table)
      keys.push_back(row.key);
  return keys;
}

std::string schedulePath(const std::string &configName) {
  return std::filesystem::path(configName).replace_extension(".schedule.csv").string();
}

std::vector<std::string> exportNotes(const ExportResult &exported) {
  std::vector<std::string> notes;
  for (const ExportDecision &decision : exported.decisions)
    if (decision.kind == ExportDecision::Kind::Differs)
      notes.push_back(fmt::format("{} = {}: {}", decision.key, decision.value, decision.text));
  return notes;
}

/// Fills the members of `view` that depend on which layers each stage holds and which layers are recomputed.
static Status findLayers(const ExportInput &input, View &view) {
  int64_t layers = input.model.layers + input.model.decoderLayers;
  if (!input.model.known())
    for (const StageLayers &run : input.completed.plan.stages)
      layers = std::max(layers, run.layers ? run.layers->second + 1 : 0);
  if (layers && view.pipeline > 1) {
    auto cut = cutLayers(input.completed, input.job, layers);
    if (!cut)
      return cut.error();
    view.cut = std::move(*cut);
    std::vector<int64_t> counts = view.layersByPart();
    view.evenCut = std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts.front(); });
  }
  view.findRecomputedLayers(layers);
  return Unit{};
}

/// Returns whether a target can keep activations in the host's memory.
static bool offloads(ExportTarget target) {
  return target == ExportTarget::Megatron || target == ExportTarget::MegatronBridge ||
         target == ExportTarget::MindSpore;
}

/// Makes layers with a recomputation mode that no target has full, and returns these modes as "pointwise and
/// except-attention"; empty where there are none.
static std::string widenRecomputation(Plan &plan) {
  std::vector<std::string_view> widened;
  for (Recompute only : {Recompute::Pointwise, Recompute::ExceptAttention}) {
    bool any = false;
    auto widen = [&](Recompute &mode) {
      any |= mode == only;
      mode = mode == only ? Recompute::Full : mode;
    };
    std::ranges::for_each(plan.recompute, widen);
    for (LayerRecompute &rule : plan.recomputeLayers)
      widen(rule.mode);
    if (any)
      widened.push_back(toString(only));
  }
  return fmt::format("{}", fmt::join(widened, " and "));
}

/// Returns whether a target can overlap exchanges of tokens with experts.
static bool overlapsExperts(ExportTarget target) {
  return target == ExportTarget::Megatron || target == ExportTarget::MegatronBridge;
}

/// Writes every setting by the row for its key in the target's table, or else in the common table. `widened`: as
/// widenRecomputation returned it.
static Draft draftOf(const Target &target, const View &view, const std::string &widened) {
  Draft draft;
  draft.runs.plan = view.plan;
  draft.runs.plan.predicted.reset();
  draft.runs.plan.ops.clear();
  draft.runs.plan.arguments.clear();
  draft.runs.plan.recomputeOps.clear();
  draft.runs.plan.compression.clear(); // no target compresses gradients
  if (!draft.runs.plan.overlap)
    draft.runs.plan.overlap.emplace();
  if (target.trainer)
    draft.runs.trainer = findTrainer(target.trainer);
  for (const auto &[key, value] : settings(view)) {
    draft.key = key;
    draft.value = value.dump();
    if (key == "recompute" && view.recompute == "offload" && !offloads(target.target)) {
      draft.differs(
          fmt::format("activations are not offloaded to host memory by {}: they stay on the device", target.title));
      draft.runs.plan.recompute = {Recompute::None};
      draft.runs.plan.recomputeLayers.clear();
      continue;
    }
    const Row *row = rowOf(target.table(), key);
    if (!row)
      row = rowOf(commonTable(), key);
    if (row)
      row->write(view, draft);
    else
      draft.differs(fmt::format("{} does not get this key, which kerf export does not know", target.title));
    if (key == "recompute" && !widened.empty())
      draft.differs(
          fmt::format("{} has no recomputation {}: layers that the plan recomputes so are recomputed in full, "
                      "which takes less memory and longer",
                      target.title, widened));
    if (key == "overlap" && !overlapsExperts(target.target))
      noteTokensWait(view, draft);
  }
  if (int64_t rest = view.ranks % view.devicesPerNode) {
    draft.key = "mesh";
    draft.value = fmt::format("{} ranks", view.ranks);
    draft.differs(
        fmt::format("launchers start {} processes on every node, which are too many: start only {} on the last node "
                    "by hand",
                    view.devicesPerNode, rest));
  }
  return draft;
}

/// Returns the configuration file, the launch command and the decisions.
static ExportResult writtenFor(ExportTarget which, const View &view, Draft draft, const std::string &configName,
                               const std::optional<ExportPrediction> &predicted, const std::optional<Schedule> &order) {
  std::vector<std::string> head = headOf(describe(which), view, draft, predicted);
  std::string torchrun = torchrunText(view);
  ExportResult exported;
  exported.decisions = std::move(draft.decisions);
  exported.prediction = predicted;
  exported.head = head;
  switch (which) {
  case ExportTarget::Megatron:
    exported.config = shellText(head,
                                nodesText(view) + megatronVariables(view.model.vocabulary) +
                                    launchLine(view, draft, torchrun, "pretrain_gpt.py"),
                                draft.arguments);
    break;
  case ExportTarget::MindSpeed:
    exported.config = shellText(head,
                                nodesText(view) + kMindSpeedCheck + megatronVariables(view.model.vocabulary) +
                                    launchLine(view, draft, torchrun, "pretrain_gpt.py"),
                                [&] {
                                  Json arguments = draft.arguments;
                                  arguments["--transformer-impl"] = "local"; // MindSpeed's README: from core_r0.12.0 on
                                  return arguments;
                                }());
    break;
  case ExportTarget::MindSpore:
    exported.config = mindSporeText(head, draft.config);
    exported.launch = fmt::format(
        "msrun --worker_num={} --local_worker_num={} {}train.py", view.ranks, view.devicesPerNode,
        view.ranks > view.devicesPerNode ? "--node_rank=\"$NODE_RANK\" --master_addr=\"$MASTER_ADDR\" " : "");
    break;
  case ExportTarget::TorchTitan:
    exported.config = tomlText(head, draft.config);
    exported.launch = launchLine(view, draft, torchrun, "-m torchtitan.train --job.config_file " + configName);
    break;
  case ExportTarget::TorchTitanPython: {
    std::filesystem::path path(configName); // TorchTitan imports the module by its name
    OrderFile file;
    if (order) {
      file = {std::filesystem::path(schedulePath(configName)).filename().string(), order->splitBackward};
      head.insert(head.begin() + 3, fmt::format("It reads the order of the stages' tasks from {}, which has to lie "
                                                "beside it.",
                                                file.name));
      exported.schedule = pytorchOrderText(*order);
    }
    exported.config = torchTitanPythonText(head, draft.config, view.model, order ? &file : nullptr);
    std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
    exported.launch = launchLine(view, draft, fmt::format("PYTHONPATH={} ", folder) + torchrun,
                                 fmt::format("-m torchtitan.train --module {} --config job", path.stem().string()));
    break;
  }
  case ExportTarget::DeepSpeed: {
    exported.config = draft.config.dump(2) + "\n";
    Json arguments = draft.arguments;
    arguments["--deepspeed"] = true;
    arguments["--deepspeed_config"] = configName;
    exported.launch = launchLine(view, draft, torchrun, "pretrain_gpt.py ") +
                      fmt::format("{}", fmt::join(commandLineWords(arguments), " "));
    break;
  }
  case ExportTarget::NeMo: {
    exported.config = yamlText(head, draft.config);
    std::filesystem::path path(configName); // Hydra resolves relative folders from the program's folder
    std::string folder = path.is_absolute() ? path.parent_path().string() : "$PWD/" + path.parent_path().string();
    exported.launch = launchLine(view, draft, torchrun,
                                 fmt::format("examples/nlp/language_modeling/megatron_gpt_pretraining.py --config-path "
                                             "\"{}\" --config-name {}",
                                             folder, path.stem().string()));
    break;
  }
  case ExportTarget::Accelerate:
    exported.config = yamlText(head, draft.config);
    exported.launch = launchLine(view, draft,
                                 "accelerate launch --config_file " + configName + " " +
                                     (view.ranks > view.devicesPerNode
                                          ? "--machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" "
                                            "--main_process_port \"${{MASTER_PORT:-29500}}\" "
                                          : ""),
                                 fmt::format("train.py {}", fmt::join(commandLineWords(draft.arguments), " ")));
    break;
  case ExportTarget::Transformers:
    exported.config = draft.config.dump(2) + "\n";
    exported.launch = launchLine(view, draft, torchrun,
                                 fmt::format("train.py {}", fmt::join(commandLineWords(draft.arguments), " ")));
    break;
  case ExportTarget::Nanotron:
    exported.config = yamlText(head, draft.config);
    exported.launch = launchLine(view, draft, torchrun, "run_train.py --config-file " + configName);
    break;
  case ExportTarget::MegatronBridge:
    exported.config = megatronBridgeText(head, draft.config, view.model);
    exported.launch = launchLine(view, draft, torchrun, configName);
    break;
  case ExportTarget::MsSwift:
    exported.config = shellText(head,
                                nodesText(view) + kSwiftVariables +
                                    launchLine(view, draft, "NNODES={} NPROC_PER_NODE={} ", "megatron pt"),
                                draft.arguments);
    break;
  }
  return exported;
}

static Status checkRules(const Target &target, const View &view) {
  std::vector<std::string> broken;
  for (const TargetRule &rule : targetRules())
    if (std::find(rule.targets.begin(), rule.targets.end(), target.target) != rule.targets.end() && rule.broken(view))
      broken.push_back(fmt::format("{} (rule {}; {})", rule.sentence(view), rule.name, rule.source));
  if (broken.empty())
    return ok();
  return Error{fmt::format("{}: {} does not run this plan: {}", view.in.completed.where, target.title,
                           fmt::join(broken, "; and "))};
}

std::function<Status(const CompletedPlan &)> targetRulesOf(ExportTarget target, ModelSizes sizes, std::string dtype) {
  ExportInput input;
  input.model = std::move(sizes);
  input.job.dtype = std::move(dtype);
  return [target, input = std::move(input)](const CompletedPlan &completed) mutable {
    input.completed = completed;
    return checkRules(describe(target), View(input));
  };
}

/// Fails where the target would train another model than that of the plan.
static Status checkModel(const Target &target, const Draft &draft) {
  bool byName = target.target == ExportTarget::TorchTitan || target.target == ExportTarget::TorchTitanPython ||
                target.target == ExportTarget::MegatronBridge;
  std::vector<std::string> other;
  for (const ExportDecision &decision : draft.decisions)
    if (decision.kind == ExportDecision::Kind::Differs && decision.key.starts_with("model.") &&
        decision.key != "model.dropout" && decision.key != "model.expert_capacity" &&
        (decision.key != "model.sizes" || byName))
      other.push_back(fmt::format("{} is {}: {}", decision.key, decision.value, decision.text));
  if (other.empty())
    return ok();
  return Error{fmt::format("{} would train another model; {}", target.title, fmt::join(other, "; "))};
}

/// Predicts the plan as the target runs it, where its prices are known and the devices are not CPUs. Fails where it
/// does not fit into memory.
static Result<std::optional<ExportPrediction>> predictionOf(const Target &target, const View &view,
                                                            const Draft &draft) {
  if (!view.in.predict || !target.trainer || view.in.completed.cluster.device.kind == "cpu")
    return std::optional<ExportPrediction>();
  auto predicted = view.in.predict(draft.runs);
  if (!predicted)
    return predicted.error();
  if (predicted->fits)
    return std::optional(*predicted);
  std::vector<std::string> changes;
  for (const ExportDecision &decision : draft.decisions)
    if (decision.kind == ExportDecision::Kind::Differs && !decision.key.starts_with("model.") &&
        !decision.key.starts_with("optimizer."))
      changes.push_back(fmt::format("{} = {}: {}", decision.key, decision.value, decision.text));
  return Error{fmt::format("{}: as {} runs it, the plan needs {:.1f} GiB of the {:.1f} GiB of the fullest device; plan "
                           "again with <for> {}, which knows what {} does{}{}",
                           view.in.completed.where, target.title, predicted->deviceBytes / (1 << 30),
                           predicted->limitBytes / (1 << 30), target.trainer, target.title,
                           changes.empty() ? "" : ". Not as planned: ", fmt::join(changes, "; ")),
               ExitStatus::Infeasible};
}

/// Returns the order of the stages' tasks if the target reads it from a file.
static Result<std::optional<Schedule>> orderOf(const View &view, const Draft &draft,
                                               const std::optional<ExportPrediction> &predicted) {
  if (!draft.readsOrder)
    return std::optional<Schedule>();
  if (predicted && predicted->schedule)
    return std::optional(*predicted->schedule);
  auto made = makeSchedule(view.in.completed.schedule); // without predicted durations of the tasks
  if (!made)
    return Error{fmt::format("{}: {}", view.in.completed.where, made.error().message)};
  return std::optional(std::move(*made));
}

/// Fails for plans that no target can express, and fills the view of `input` otherwise.
static Status readView(const Target &target, const ExportInput &input, View &view) {
  const CompletedPlan &completed = input.completed;
  if (completed.cluster.mixed())
    return Error{fmt::format("{} is a mixed cluster ({}): {} gives all ranks the same arguments and cannot weigh "
                             "stages by their devices; make "
                             "a plan of at most {} ranks, which uses only the first group",
                             completed.cluster.name, devicesOf(completed.cluster), target.title,
                             completed.cluster.groups.front().ranks())};
  if (stagesDiffer(completed.plan))
    return Error{fmt::format("{}: stages have meshes of their own, but {} gives all stages the same mesh; remove "
                             "them from the plan",
                             completed.where, target.title)};
  return findLayers(input, view);
}

Result<std::vector<ExportDecision>> exportDecisions(ExportTarget which, const ExportInput &given) {
  ExportInput input = given;
  const std::string widened = widenRecomputation(input.completed.plan);
  View view(input);
  if (Status status = readView(describe(which), input, view); !status)
    return status.error();
  return draftOf(describe(which), view, widened).decisions;
}

Result<ExportResult> exportPlan(ExportTarget which, const ExportInput &given, const std::string &configName) {
  const Target &target = describe(which);
  ExportInput input = given;
  const std::string widened = widenRecomputation(input.completed.plan);
  View view(input);
  if (Status status = readView(target, input, view); !status)
    return status.error();
  Draft draft = draftOf(target, view, widened);
  if (Status status = checkModel(target, draft); !status)
    return status.error();
  if (Status status = checkRules(target, view); !status)
    return status.error();
  if (std::string name = std::filesystem::path(configName).stem().string();
      which == ExportTarget::TorchTitanPython && name.find('.') != std::string::npos)
    return Error{
        fmt::format("'{}' cannot be imported as a module, because its name has a dot; give <output> a name such "
                    "as {}",
                    configName, target.file)};
  auto predicted = predictionOf(target, view, draft);
  if (!predicted)
    return predicted.error();
  auto order = orderOf(view, draft, *predicted);
  if (!order)
    return order.error();
  return writtenFor(which, view, std::move(draft), configName, *predicted, *order);
}

} // namespace kerf
