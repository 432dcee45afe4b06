// SPDX-License-Identifier: Apache-2.0
// kerf simulate: what a plan would take on a cluster, and whether it would fit.
#include "Checks.h"
#include "Options.h"
#include "Reports.h"
#include "Trained.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Report/StepText.h"
#include <fmt/core.h>

namespace kerf::tool {

namespace {

/// The keys of the simulation, and of what it was of.
nlohmann::ordered_json toJson(const Simulated &simulated) {
  nlohmann::ordered_json root = toJson(simulated.simulation);
  root["model_flops"] = simulated.work.modelFlops;
  root["ranks"] = simulated.mesh.ranks();
  return root;
}

struct SimulateCommand {
  ModelFlags model;
  std::string cluster, plan, trace, report, trainer;
  int64_t ranks = 0;
  std::optional<double> margin;
  bool json = false;
  GivenPlan given;

  int run() {
    const Plan asked = given.plan.value_or(Plan());
    auto machine = machinesOf(cluster, given.job, ranks, asked.mesh().ranks());
    if (!machine)
      return fail(machine.error());
    *machine = withMargin(std::move(*machine), margin);
    SimulateOptions options;
    options.step = model.toStepOptions();
    options.dtype = model.dtype;
    if (!trainer.empty())
      options.trainer = findTrainer(trainer);
    if (ranks)
      options.ranks = ranks;
    options.trace = trace.empty() && report.empty() ? Trace::No : Trace::Yes;
    auto context = createContext();
    auto simulated =
        simulatePlan(*context, model.model, asked, plan.empty() ? "the empty plan" : plan, *machine, options);
    if (!simulated)
      return fail(simulated.error());
    printWarnings(simulated->warnings);
    if (!trace.empty())
      if (Status status = writeFile(trace, chromeTrace(simulated->simulation)); !status)
        return fail(status.error());
    if (!report.empty()) {
      auto full = stepReport(model.model, simulated->cluster, *simulated);
      if (!full)
        return fail(full.error());
      if (Status status = writeReport(*full, report); !status)
        return fail(status.error());
    }
    if (json)
      fmt::print("{}\n", toJson(*simulated).dump(2));
    else
      fmt::print("{}", toText(simulated->simulation, simulated->mesh.ranks(), machine->name));
    return 0;
  }
};

} // namespace

void addSimulate(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<SimulateCommand>(
      app, "simulate",
      "Predict one plan without searching: seconds of a step, where they go, memory of each stage.\n"
      "What the plan leaves out has a default (docs/plan.md); layouts are Megatron-LM's.\n"
      "Example: kerf simulate config.json --cluster clusters/selene.json --plan plan.json --dtype bf16 "
      "--optimizer adamw --sequence 2048",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  sub->add_option("--cluster", command->cluster,
                  "cluster.json (ready ones stand in clusters/); default: CPU ranks of this machine");
  sub->add_option("--plan", command->plan, "plan.json, complete or partial; default: the data axis over all ranks");
  sub->add_option("--ranks", command->ranks, "use the first N ranks (default: as many as the plan's mesh has)")
      ->check(wholeNumber(1, int64_t{1} << 24));
  addTrainer(*sub, command->trainer);
  addMargin(*sub, command->margin);
  sub->add_option("--trace", command->trace, "write the timeline for chrome://tracing or Perfetto: T.json")
      ->check(writableFile());
  sub->add_option("--report", command->report, "write the report: F.txt, F.json or F.html")->check(writableFile());
  sub->add_flag("--json", command->json, "everything as JSON on standard output");
}

} // namespace kerf::tool
