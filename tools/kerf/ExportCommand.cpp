// SPDX-License-Identifier: Apache-2.0
// kerf export: writes a plan as the arguments or the configuration of another trainer, with notes on the decisions that
// the trainer cannot express.
#include "Options.h"

#include "kerf/Compiler/ModelLayouts.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/Compiler/TextLayouts.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/Export/Export.h"
#include "kerf/Export/Launch.h"
#include "kerf/Export/StableHlo.h"
#include "kerf/Frontend/ReadSizes.h"
#include "kerf/PlanSearch/MemoryText.h"
#include <filesystem>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

Json toJson(const ExportResult &exported, ExportTarget target) {
  Json decisions = Json::array();
  for (const ExportDecision &decision : exported.decisions) {
    using Kind = ExportDecision::Kind;
    const char *kind = decision.kind == Kind::Expressed ? "expressed"
                       : decision.kind == Kind::Idle    ? "idle"
                                                        : "differs";
    decisions.push_back({{"key", decision.key}, {"value", decision.value}, {"kind", kind}, {"text", decision.text}});
  }
  Json root = {
      {"target", toString(target)}, {"config", exported.config}, {"launch", exported.launch}, {"decisions", decisions}};
  if (!exported.schedule.empty())
    root["schedule"] = exported.schedule;
  if (const auto &predicted = exported.prediction)
    root["predicted"] = {{"step_seconds", predicted->stepSeconds},
                         {"tokens_per_second", predicted->tokensPerSecond},
                         {"device_bytes", predicted->deviceBytes},
                         {"limit_bytes", predicted->limitBytes}};
  return root;
}

/// Returns the shardings by arguments and lines of the text.
TextShardings shardingsOf(const TextLayouts &layouts) {
  TextShardings shardings;
  shardings.mesh = layouts.mesh;
  for (const std::string &name : layouts.names)
    for (size_t i = 0; i < layouts.arguments.size(); ++i)
      if (const ParameterLayout &its = layouts.arguments[i].layout; its.name == name)
        shardings.arguments.push_back({its.sizes, layouts.shardings[i]});
  for (const PlacedOp &op : layouts.ops)
    for (const TextPlace &place : op.places)
      if (op.result)
        shardings.lines[place.line].push_back({op.shape, *op.result});
  return shardings;
}

struct ExportCommand {
  ModelFlags model;
  std::string cluster, plan, target, output, launcher;
  bool json = false;
  PlanInput planInput;

  bool configured() const { return model.model.ends_with(".json"); }

  /// Fails when the plan was made for another cluster than the one of --cluster or its first ranks.
  Status checkCluster(const Plan &asked, const Cluster &machine) const {
    std::string whole = sha256(kerf::toJson(machine)), used = whole;
    if (auto first = firstRanks(machine, asked.mesh().ranks()))
      used = sha256(kerf::toJson(*first));
    // A plan may use fewer ranks than the cluster for which it was made.
    bool ofJob =
        planInput.job && planInput.job->cluster && kerf::toJson(*planInput.job->cluster) == kerf::toJson(machine);
    if (ofJob || cluster.empty() || asked.clusterHash.empty() || asked.clusterHash == whole ||
        asked.clusterHash == used)
      return ok();
    return Error{fmt::format("{} was made for another cluster: its inputs.cluster_sha256 is {:.16}..., that of {} is "
                             "{:.16}...; plan again",
                             plan, asked.clusterHash, machine.name, whole)};
  }

  /// Fails when the plan was made for another model. The model is imported with the options of the plan's job, because
  /// options typed on the command line change the exported training, not the job of the plan.
  Status checkModel(const Plan &asked) const {
    if (asked.modelHash.empty())
      return ok();
    ModelFlags made = model;
    PrecisionFlags precision;
    if (planInput.job) {
      CLI::App job;
      made = ModelFlags();
      made.addTo(job, {"f32", "f64", "bf16", "f16", "f8"});
      precision.addTo(job);
      if (Status status = applyJobOptions(job, *planInput.job, plan, JobPart::All); !status)
        return status;
      made.model = model.model;
    }
    if (configured() && !made.globalBatch)
      made.globalBatch = asked.globalBatch;
    auto imported = importStep(made, precision, /*gradientNorms=*/false);
    if (!imported)
      return imported.error();
    if (imported->step.modelHash != asked.modelHash)
      return Error{fmt::format("{} was made for another model: its inputs.model_sha256 is {:.16}..., that of {} is "
                               "{:.16}... (sizes of the step count: --sequence, --dtype); plan again",
                               plan, asked.modelHash, model.model, imported->step.modelHash)};
    return ok();
  }

  /// Simulates a plan as a target runs it.
  Result<ExportPrediction> predict(mlir::MLIRContext &context, const Cluster &machine,
                                   const PlanAsExported &runs) const {
    SimulateOptions options;
    options.step = model.toStepOptions();
    if (!runs.optimizer.empty())
      options.step.optimizer.optimizer = runs.optimizer;
    options.dtype = model.dtype;
    options.trainer = runs.trainer;
    auto simulated = simulatePlan(context, model.model, runs.plan, plan, machine, options);
    if (!simulated)
      return simulated.error();
    const Simulation &its = simulated->simulation;
    const StageMemory &fullest = fullestStage(its);
    return ExportPrediction{its.stepSeconds, its.tokensPerSecond, fullest.deviceBytes, fullest.limitBytes,
                            its.fits,        its.schedule};
  }

  Result<ExportResult> make(ExportTarget to) const {
    const Plan &asked = *planInput.plan;
    StepOptions step = model.toStepOptions();
    if (Status status = setPlanDependentOptions(step, asked, plan); !status)
      return status.error();
    if (!step.cuts.empty())
      return Error{fmt::format(
          "{}: its stages end at operators (\"until\"), but the other trainers cut between layers only; give "
          "\"layers\" instead of \"until\"",
          plan)};
    auto machine = chooseCluster(cluster, planInput.job, 0, asked.mesh().ranks());
    if (!machine)
      return machine.error();
    for (Status status : {checkCluster(asked, *machine), checkModel(asked)})
      if (!status)
        return status.error();
    auto context = createContext();
    ModelLayouts layouts(*context, model.model, step, model.dtype, *machine, asked, ownTrainer());
    auto job = layouts.job(std::nullopt);
    if (!job)
      return job.error();
    ExportInput input;
    input.job = *job;
    if (configured()) {
      auto sizes = readModelSizes(model.model, model.sequence);
      if (!sizes)
        return sizes.error();
      input.model = std::move(*sizes);
    }
    Plan whole =
        asked; // without the strategies of operators, which the simulator does not take; they are exported below
    whole.ops.clear();
    whole.arguments.clear();
    if (!whole.attention && lacksFusedAttention(to, machine->device, model.dtype))
      whole.attention = AttentionKernels::Unfused;
    auto completed = completePlan(whole, plan, *machine, *job);
    if (!completed)
      return completed.error();
    if (Status status = checkDtype(completed->cluster, model.dtype); !status)
      return status.error();
    input.completed = std::move(*completed);
    input.completed.plan.ops = asked.ops;
    input.completed.plan.arguments = asked.arguments;
    const OptimizerOptions &o = step.optimizer;
    input.optimizer = {model.optimizer, parameterOptimizer(o, "", {1, 1}).settings, o.clipNorm, o.noDecayGlobs};
    input.expertCapacity = model.expertCapacity;
    input.predict = [&](const PlanAsExported &runs) { return predict(*context, *machine, runs); };
    return exportPlan(to, input, output.empty() ? std::string(exportFileName(to)) : output);
  }

  /// Writes the StableHLO text of the model with the shardings of the plan.
  int runStableHlo() {
    if (!model.model.ends_with(".mlir"))
      return fail(Error{fmt::format("--to stablehlo needs the StableHLO text of JAX, but '{}' is another model; give a "
                                    "file whose name ends in .mlir",
                                    model.model)});
    PlanUse use{*planInput.plan, plan, ModelSource(model.model)};
    if (!cluster.empty()) {
      auto machine = chooseCluster(cluster, planInput.job, 0, planInput.plan->mesh().ranks());
      if (!machine)
        return fail(machine.error());
      use.cluster = *machine;
    }
    auto layouts = textLayouts(use);
    auto text = readFile(model.model);
    if (!layouts || !text)
      return fail(layouts ? text.error() : layouts.error());
    auto annotated = annotate(*text, shardingsOf(*layouts));
    if (!annotated)
      return fail(Error{fmt::format("'{}': {}", model.model, annotated.error().message)});
    if (!output.empty())
      if (Status status = writeFile(output, annotated->text); !status)
        return fail(status.error());
    if (json) {
      fmt::print("{}\n", Json{{"target", "stablehlo"},
                              {"config", annotated->text},
                              {"arguments", annotated->arguments},
                              {"constraints", annotated->constraints},
                              {"left", annotated->left}}
                             .dump(2));
      return 0;
    }
    FILE *told = output.empty() ? stderr : stdout;
    if (output.empty())
      fmt::print("{}", annotated->text);
    fmt::print(told, "{} arguments have shardings, {} results have constraints; the compiler chooses the others.\n",
               annotated->arguments, annotated->constraints);
    for (const std::string &left : annotated->left)
      fmt::print(told, "  no constraint for {}\n", left);
    return 0;
  }

  /// Returns the nodes of the plan, which is complete enough to be exported.
  LaunchNodes nodesOf() const {
    int64_t ranks = planInput.plan->mesh().ranks();
    auto machine = chooseCluster(cluster, planInput.job, 0, ranks);
    int64_t devices = machine && !machine->levels.empty() ? std::min(machine->levels.front().size, ranks) : ranks;
    return {(ranks + devices - 1) / devices, devices};
  }

  /// Writes a file that may be started by its name.
  static Status writeScript(const std::string &path, const std::string &text) {
    if (Status status = writeFile(path, text); !status)
      return status;
    using enum std::filesystem::perms;
    std::error_code error;
    std::filesystem::permissions(path, owner_exec | group_exec | others_exec, std::filesystem::perm_options::add,
                                 error);
    return ok(); // a file system without permissions keeps the file
  }

  /// Writes the exported file and, with --launcher, the file that starts it.
  Status writeFiles(ExportResult &exported) const {
    bool script = exported.launch.empty();
    if (script && !launcher.empty())
      exported.config = launchFile(launcher, exported.config, nodesOf());
    if (output.empty()) {
      if (!script && !launcher.empty())
        return Error{"--launcher writes a file beside the exported one; give --output, or leave it out"};
      if (!exported.schedule.empty() && !json)
        return Error{fmt::format("the order of the stages' tasks is a file beside the exported one ({}); give --output",
                                 schedulePath(std::string(exportFileName(*exportTarget(target)))))};
      return ok();
    }
    if (!exported.schedule.empty())
      if (Status status = writeFile(schedulePath(output), exported.schedule); !status)
        return status;
    bool yaml = script && !launcher.empty() && launchSuffix(launcher) == ".yaml";
    if (Status status = script && !yaml ? writeScript(output, exported.config) : writeFile(output, exported.config);
        !status || script || launcher.empty())
      return status;
    LaunchNodes nodes = nodesOf();
    std::string text = launchFile(launcher, launchScript(exported.head, exported.launch, nodes), nodes);
    std::string path =
        std::filesystem::path(output).replace_extension().string() + ".launch" + std::string(launchSuffix(launcher));
    exported.launch = launchCommand(launcher, path);
    return launchSuffix(launcher) == ".sh" ? writeScript(path, text) : writeFile(path, text);
  }

  int run() {
    if (target == "stablehlo")
      return launcher.empty() ? runStableHlo()
                              : fail(Error{"--launcher starts a trainer, but --to stablehlo writes a text for "
                                           "compilers; leave --launcher out"});
    ExportTarget to = *exportTarget(target); // checked by the command line
    auto exported = make(to);
    if (!exported)
      return fail(exported.error());
    if (Status status = writeFiles(*exported); !status)
      return fail(status.error());
    if (json) {
      fmt::print("{}\n", toJson(*exported, to).dump(2));
      return 0;
    }
    // Without -o, standard output has the file alone, so that it can be redirected, and standard error has the notes.
    FILE *told = output.empty() ? stderr : stdout;
    if (output.empty())
      fmt::print("{}", exported->config);
    if (!exported->launch.empty())
      fmt::print(told, "Start with\n  {}\n", exported->launch);
    else if (!output.empty())
      fmt::print(told, "Start with\n  {}\n", launchCommand(launcher.empty() ? "torchrun" : launcher, output));
    if (const auto &predicted = exported->prediction)
      fmt::print(told, "Expected as written: {:.4g} s a step, {:.4g} tokens/s, {:.1f} of {:.1f} GiB\n",
                 predicted->stepSeconds, predicted->tokensPerSecond, predicted->deviceBytes / (1 << 30),
                 predicted->limitBytes / (1 << 30));
    std::vector<std::string> notes = exportNotes(*exported);
    fmt::print(told, "{}\n", notes.empty() ? "All of the plan is expressed." : "Not as planned:");
    for (const std::string &note : notes)
      fmt::print(told, "  {}\n", note);
    return 0;
  }
};

} // namespace

void addExportCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<ExportCommand>(
      app, "export",
      "Write a plan as the arguments or the configuration of another trainer, with notes on what that trainer does "
      "differently from the plan.\n"
      "Example: kerf export config.json --plan plan.json --cluster clusters/selene.json --dtype bf16 --optimizer adamw "
      "--to megatron -o train.sh",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  std::vector<std::string> names;
  for (ExportTarget target : exportTargets())
    names.emplace_back(toString(target));
  names.emplace_back("stablehlo"); // not a trainer: the model's own text
  sub->add_option("--plan", command->plan,
                  "plan.json to export; the gaps of a partial plan get the defaults of kerf simulate (docs/plan.md)")
      ->required();
  sub->add_option(
         "--to", command->target,
         "trainer to write for: megatron (a shell script with the arguments of Megatron-LM), torchtitan "
         "(TOML for 0.2), torchtitan-0.3 (Python), deepspeed (JSON), nemo (YAML for NeMo 1), megatron-bridge (Python), "
         "accelerate (YAML), transformers (JSON of DistributedConfig), nanotron (YAML), ms-swift (a shell script), "
         "mindspeed (a "
         "shell script) or mindspore (Python); or stablehlo "
         "(the model's StableHLO text with the plan's shardings, for XLA)")
      ->required()
      ->check(CLI::IsMember(names));
  sub->add_option(
      "--cluster", command->cluster,
      "cluster.json of the machines (default: the cluster of the plan's job, or else CPU ranks of this machine)");
  sub->add_option("-o,--output", command->output,
                  "file to write (default: standard output, with the notes on standard error)");
  sub->add_option(
         "--launcher", command->launcher,
         "write a file that starts the training on all nodes: by hand (torchrun), or by slurm, kubernetes or "
         "skypilot; with --to megatron, ms-swift and mindspeed this is the exported file itself, else a file beside it "
         "(train.launch.sh or train.launch.yaml)")
      ->check(CLI::IsMember(launcherNames()));
  sub->add_flag("--json", command->json, "print the file, the command that launches it and every decision as JSON");
}

} // namespace kerf::tool
