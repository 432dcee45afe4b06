// SPDX-License-Identifier: Apache-2.0
// kerf export: a plan as the arguments or the configuration of another trainer, with what they can't say.
#include "Options.h"

#include "kerf/Compiler/ModelLayouts.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/Export/Export.h"
#include "kerf/Frontend/ReadSizes.h"
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

Json toJson(const Exported &exported, ExportTarget target) {
  Json decisions = Json::array();
  for (const ExportDecision &decision : exported.decisions) {
    using Kind = ExportDecision::Kind;
    const char *kind = decision.kind == Kind::Expressed ? "expressed"
                       : decision.kind == Kind::Idle    ? "idle"
                                                        : "differs";
    decisions.push_back({{"key", decision.key}, {"value", decision.value}, {"kind", kind}, {"text", decision.text}});
  }
  return {
      {"target", toString(target)}, {"config", exported.config}, {"launch", exported.launch}, {"decisions", decisions}};
}

const char *defaultName(ExportTarget target) {
  switch (target) {
  case ExportTarget::Megatron:
    return "megatron.sh";
  case ExportTarget::TorchTitan:
    return "torchtitan.toml";
  case ExportTarget::DeepSpeed:
    return "ds_config.json";
  case ExportTarget::NeMo:
    return "nemo.yaml";
  }
  return "";
}

struct ExportCommand {
  ModelFlags model;
  std::string cluster, plan, target, output;
  bool json = false;
  GivenPlan given;

  bool configured() const { return model.model.ends_with(".json"); }

  /// The plan is of this cluster, where one is typed: of all of it, or of its first ranks.
  Status checkCluster(const Plan &asked, const Cluster &machine) const {
    std::string whole = sha256(kerf::toJson(machine)), used = whole;
    if (auto first = firstRanks(machine, asked.mesh().ranks()))
      used = sha256(kerf::toJson(*first));
    // A plan may use fewer ranks than it was made for.
    bool ofJob = given.job && given.job->cluster && kerf::toJson(*given.job->cluster) == kerf::toJson(machine);
    if (ofJob || cluster.empty() || asked.clusterHash.empty() || asked.clusterHash == whole ||
        asked.clusterHash == used)
      return ok();
    return Error{fmt::format("{} was made for another cluster: its inputs.cluster_sha256 is {:.16}..., that of {} is "
                             "{:.16}...; plan again",
                             plan, asked.clusterHash, machine.name, whole)};
  }

  /// The plan is of this model, imported as the plan's job says: options that were typed change the training, not what
  /// the plan was made for.
  Status checkModel(const Plan &asked) const {
    if (asked.modelHash.empty())
      return ok();
    ModelFlags made = model;
    PrecisionFlags precision;
    if (given.job) {
      CLI::App job;
      made = ModelFlags();
      made.addTo(job, {"f32", "f64", "bf16", "f16", "f8"});
      precision.addTo(job);
      if (Status status = takeOptions(job, *given.job, plan, JobPart::All); !status)
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

  Result<Exported> make(ExportTarget to) const {
    const Plan &asked = *given.plan;
    StepOptions step = model.toStepOptions();
    if (Status status = prepareFor(step, asked, plan); !status)
      return status.error();
    if (!step.cuts.empty())
      return Error{fmt::format("{}: stages end with \"until\": the systems that a plan is exported to cut between "
                               "layers; give \"layers\"",
                               plan)};
    auto machine = machinesOf(cluster, given.job, 0, asked.mesh().ranks());
    if (!machine)
      return machine.error();
    for (Status status : {checkCluster(asked, *machine), checkModel(asked)})
      if (!status)
        return status.error();
    auto context = createContext();
    ModelLayouts layouts(*context, model.model, step, model.dtype, *machine, asked);
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
    Plan whole = asked; // strategies of single ops are not simulated; here they are told
    whole.ops.clear();
    whole.arguments.clear();
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
    return exportPlan(to, input, output.empty() ? defaultName(to) : output);
  }

  int run() {
    ExportTarget to = *exportTarget(target); // checked by the command line
    auto exported = make(to);
    if (!exported)
      return fail(exported.error());
    if (!output.empty())
      if (Status status = writeFile(output, exported->config); !status)
        return fail(status.error());
    if (json) {
      fmt::print("{}\n", toJson(*exported, to).dump(2));
      return 0;
    }
    // The file alone on standard output, so that it can be redirected; with -o what is said about it.
    FILE *told = output.empty() ? stderr : stdout;
    if (output.empty())
      fmt::print("{}", exported->config);
    if (!exported->launch.empty())
      fmt::print(told, "Start with\n  {}\n", exported->launch);
    std::vector<std::string> notes = notesOf(*exported);
    fmt::print(told, "{}\n", notes.empty() ? "All of the plan is expressed." : "Not as planned:");
    for (const std::string &note : notes)
      fmt::print(told, "  {}\n", note);
    return 0;
  }
};

} // namespace

void addExport(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<ExportCommand>(
      app, "export",
      "Write a plan as the arguments or the configuration of another trainer, and say what it does otherwise.\n"
      "Example: kerf export config.json --plan plan.json --cluster clusters/selene.json --dtype bf16 --optimizer adamw "
      "--to megatron -o train.sh",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  sub->add_option("--plan", command->plan, "plan.json, complete or partial: completed as kerf simulate does")
      ->required();
  sub->add_option("--to", command->target, "megatron (arguments), torchtitan (TOML), deepspeed (JSON), nemo (YAML)")
      ->required()
      ->check(CLI::IsMember({"megatron", "torchtitan", "deepspeed", "nemo"}));
  sub->add_option("--cluster", command->cluster,
                  "cluster.json (ready ones stand in clusters/); default: CPU ranks of this machine");
  sub->add_option("-o,--output", command->output, "the file (default: standard output, and notes on standard error)");
  sub->add_flag("--json", command->json, "file, launch line and every decision as JSON on standard output");
}

} // namespace kerf::tool
