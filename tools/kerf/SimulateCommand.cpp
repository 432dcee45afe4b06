// SPDX-License-Identifier: Apache-2.0
// kerf simulate: predicts the step time and the memory of a plan on a cluster.
#include "Checks.h"
#include "Options.h"
#include "ReportFile.h"
#include "StartMessages.h"
#include "kerf/Compiler/PlanJob.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/Report/StepText.h"
#include <fmt/core.h>

namespace kerf::tool {

namespace {

/// Returns the simulation as JSON, with the FLOP of the model and the number of ranks.
nlohmann::ordered_json toJson(const SimulatedPlan &simulated) {
  nlohmann::ordered_json root = toJson(simulated.simulation);
  root["model_flops"] = simulated.work.modelFlops;
  root["ranks"] = simulated.mesh.ranks();
  return root;
}

struct SimulateCommand {
  ModelFlags model;
  std::string cluster, plan, trace, report, trainer, output;
  int64_t ranks = 0;
  std::optional<double> margin;
  SearchSettings compression; // of these settings only those of --compress are used
  bool json = false;
  PlanInput planInput;

  int run() {
    const Plan asked = planInput.plan.value_or(Plan());
    auto machine = chooseCluster(cluster, planInput.job, ranks, asked.mesh().ranks());
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
    auto compress = compression.compression();
    if (!compress)
      return fail(compress.error());
    if (*compress && options.trainer != &ownTrainer())
      return fail(
          {fmt::format("--compress is for Kerf's own programs, but --for is {}; leave one of the two out", trainer)});
    options.compression = std::move(*compress);
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
    if (!output.empty())
      if (Status status = writeFile(output, kerf::toJson(simulated->plan)); !status)
        return fail(status.error());
    if (!report.empty()) {
      auto full = reportOn(model.model, simulated->cluster, *simulated);
      if (!full)
        return fail(full.error());
      if (Status status = writeReport(spelled(std::move(*full)), report); !status)
        return fail(status.error());
    }
    if (json)
      fmt::print("{}\n", toJson(*simulated).dump(2));
    else
      fmt::print("{}{}", toText(simulated->simulation, simulated->mesh.ranks(), machine->name),
                 compressionText(simulated->plan));
    return 0;
  }
};

} // namespace

void addSimulateCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<SimulateCommand>(
      app, "simulate",
      "Predict the seconds of a training step under one plan, their parts, and the memory of each pipeline stage, "
      "without a search.\n"
      "Gaps of the plan get defaults (docs/plan.md); layers are sharded as in Megatron-LM.\n"
      "Example: kerf simulate config.json --cluster clusters/selene.json --plan plan.json --dtype bf16 "
      "--optimizer adamw --sequence 2048",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  sub->add_option("--cluster", command->cluster,
                  "cluster.json of the machines, such as a file of clusters/ (default: the cluster of the plan's job, "
                  "or else CPU ranks "
                  "of this machine)");
  sub->add_option("--plan", command->plan,
                  "plan.json to predict, with or without gaps (default: data parallelism over all ranks)");
  sub->add_option("--ranks", command->ranks,
                  "use the first N ranks, 1 or more (default: as many as the mesh of the plan has)")
      ->check(wholeNumber(1, int64_t{1} << 24));
  addTrainer(*sub, command->trainer);
  addCompression(*sub, command->compression);
  addMargin(*sub, command->margin);
  sub->add_option("--trace", command->trace,
                  "file for the timeline of one step, for chrome://tracing or Perfetto: T.json")
      ->check(writableFile());
  sub->add_option("-o,--output", command->output, "file for the plan with its gaps filled: plan.json")
      ->check(writableFile());
  sub->add_option("--report", command->report, kReportHelp)->check(writableFile());
  sub->add_flag("--json", command->json, "print the whole prediction as JSON");
}

} // namespace kerf::tool
