// SPDX-License-Identifier: Apache-2.0
// kerf export: a plan as the arguments or the configuration of another trainer, with what they can't say.
#include "Options.h"

#include "kerf/Compiler/ModelLayouts.h"
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

  bool configured() const { return model.model.ends_with(".json"); }

  /// The plan is of this model and, where one is given, of this cluster.
  Status checkBelongs(const Plan &given, const Cluster &machine) const {
    std::string whole = sha256(kerf::toJson(machine)), used = whole;
    if (auto first = firstRanks(machine, given.mesh().ranks()))
      used = sha256(kerf::toJson(*first));
    bool ofJob = false; // a whole plan may use fewer ranks than it was made for
    if (given.others.contains("job") && given.others["job"].is_object() && given.others["job"].contains("cluster"))
      if (auto saved = parseCluster(given.others["job"]["cluster"].dump(), plan); saved)
        ofJob = kerf::toJson(*saved) == kerf::toJson(machine);
    if (!ofJob && !cluster.empty() && !given.clusterHash.empty() && given.clusterHash != whole &&
        given.clusterHash != used)
      return Error{fmt::format("{} was made for another cluster: its inputs.cluster_sha256 is {:.16}..., that of {} is "
                               "{:.16}...; plan again",
                               plan, given.clusterHash, machine.name, whole)};
    if (given.modelHash.empty())
      return ok();
    ModelFlags sized = model;
    if (configured() && !sized.globalBatch)
      sized.globalBatch = given.globalBatch;
    auto imported = importStep(sized, PrecisionFlags(), /*gradientNorms=*/false);
    if (!imported)
      return imported.error();
    if (imported->step.modelHash != given.modelHash)
      return Error{fmt::format("{} was made for another model: its inputs.model_sha256 is {:.16}..., that of {} is "
                               "{:.16}... (sizes of the step count: --sequence, --dtype); plan again",
                               plan, given.modelHash, model.model, imported->step.modelHash)};
    return ok();
  }

  Result<Exported> make(ExportTarget to) const {
    auto given = readPlan(plan);
    if (!given)
      return given.error();
    auto cuts = stageCuts(*given, plan);
    if (!cuts)
      return cuts.error();
    if (!cuts->empty())
      return Error{fmt::format("{}: stages end with \"until\": the systems that a plan is exported to cut between "
                               "layers; give \"layers\"",
                               plan)};
    auto machine = cluster.empty() ? thisMachine(given->mesh().ranks()) : readCluster(cluster);
    if (!machine)
      return machine.error();
    if (Status status = checkBelongs(*given, *machine); !status)
      return status.error();
    StepOptions step = model.toStepOptions();
    auto context = createContext();
    ModelLayouts layouts(*context, model.model, step, model.dtype, *machine, *given);
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
    Plan whole = *given; // strategies of single ops are not simulated; here they are told
    whole.ops.clear();
    whole.arguments.clear();
    auto completed = completePlan(whole, plan, *machine, *job);
    if (!completed)
      return completed.error();
    input.completed = std::move(*completed);
    input.completed.plan.ops = given->ops;
    input.completed.plan.arguments = given->arguments;
    const OptimizerOptions &o = step.optimizer;
    input.optimizer = {model.optimizer, o.momentum,    o.beta1,    o.beta2,
                       o.epsilon,       o.weightDecay, o.clipNorm, o.noDecayGlobs};
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
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"});
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
