// SPDX-License-Identifier: Apache-2.0
// kerf train: imports, plans, compiles and runs a model.
#include "Options.h"
#include "ReportFile.h"
#include "ResumedOptions.h"
#include "RunProgram.h"
#include "StepLines.h"

#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

struct TrainCommand {
  ModelFlags model;
  PrecisionFlags precision;
  PlanFlags where;
  RunFlags flags;
  std::string planFile, report, savePlan;
  bool json = false, noNative = false;
  PlanInput planInput;
  CLI::App *app = nullptr;
  std::optional<runtime::Checkpoint> resumed;
  std::string resumedNote;

  /// Takes options from the checkpoint before the plan's job is read, because the checkpoint has precedence.
  Status beforePlan() {
    auto opened = openResumed(flags);
    if (!opened)
      return opened.error();
    resumed = std::move(*opened);
    auto note = resumed ? applyCheckpointOptions(*app, flags, *resumed) : Result<std::string>("");
    if (!note)
      return note.error();
    resumedNote = *note;
    return ok();
  }

  int run() {
    where.job = planInput.job;
    where.runsOn = flags.device;
    where.deterministic = flags.deterministic;
    auto imported = importStep(model, precision, !flags.gradientNorms.empty(),
                               planFile.empty() ? where.constraints : planFile, where.mode == "hybrid");
    if (!imported)
      return fail(imported.error());
    const TrainingStep &step = imported->step;
    // A missing weights file is an error, so that nobody trains from random weights by mistake; --seed asks for random
    // weights explicitly.
    if (!step.missingFiles.empty() && model.weights.empty() && !flags.seed && !resumed)
      return fail({fmt::format(
          "{}: its weights file '{}' does not exist; put the file there, give --weights FILE, or give --seed N "
          "to start from random initial weights",
          model.model, fmt::join(step.missingFiles, "', '"))});
    auto tcp = runtime::tcpLaunch();
    if (!tcp)
      return fail(tcp.error());
    where.allRanks |= runtime::launchedAsRank(); // every process is a rank
    if (*tcp && !where.ranks)
      where.ranks = (*tcp)->ranks;
    if (runtime::launchedByMpi() && !where.ranks)
      if (const char *size = std::getenv("OMPI_COMM_WORLD_SIZE"))
        where.ranks = std::atoll(size);
    auto planned = planAndCompile(*app, step, model, precision, planFile, where);
    if (!planned)
      return fail(planned.error());
    if (!savePlan.empty())
      if (Status status = writeFile(savePlan, toJson(planned->plan)); !status)
        return fail(status.error());
    if (Status status = addCodeForDevice(planned->compiled, flags.device, !noNative); !status)
      return fail(status.error());
    describeProgram(planned->compiled.program, model.model, step, planned->plan);
    auto done = runProgram(planned->compiled.program, step.weights, flags, planned->compiled.report.warnings,
                           {resumed ? &*resumed : nullptr, resumedNote}, json);
    if (!done) {
      Error error = done.error();
      bool configured = std::filesystem::path(model.model).extension() == ".json";
      if (configured && error.message.rfind("data: ", 0) == 0)
        error.message +=
            "; --global-batch and --sequence set the batch and the sequence length of a config.json's model";
      return fail(error);
    }
    if (done->steps.empty())
      return 0;
    Report &full = planned->compiled.report;
    addMeasured(*done, full);
    if (!report.empty())
      if (Status status = writeReport(full, report); !status)
        return fail(status.error());
    if (json)
      fmt::print("{}\n", summaryJson(planned->compiled.program, *done, &full).dump(2));
    else
      fmt::print("{}", toText(full));
    return exitStatus(*done);
  }
};

} // namespace

void addTrainCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<TrainCommand>(
      app, "train",
      "Train a model: import it, find a plan, compile it and run it.\n"
      "Example: kerf train model.onnx --data batches.npz --steps 20 --ranks 4 --optimizer adamw --lr 1e-3",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  command->model.addTrainingTo(*sub);
  command->precision.addTo(*sub);
  command->where.addTo(*sub);
  command->flags.addTo(*sub);
  command->app = sub;
  sub->add_option("--plan", command->planFile,
                  "plan.json to use instead of a search; the gaps of a partial plan are filled (docs/plan.md)");
  sub->add_option("--save-plan", command->savePlan, "file for the plan: plan.json");
  sub->add_option("--report", command->report, kReportHelp);
  sub->add_flag("--print-pipeline", command->where.printPipeline, kPrintPipelineHelp);
  sub->add_flag("--no-native", command->noNative, kNoNativeHelp);
  sub->add_flag("--json", command->json, "print losses, measured times and the report as JSON instead of text");
}

} // namespace kerf::tool
