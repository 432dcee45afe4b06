// SPDX-License-Identifier: Apache-2.0
#include "RunCommand.h"
#include "Command.h"
#include "ReportFile.h"
#include "ResumedOptions.h"
#include "RunProgram.h"
#include "StepLines.h"

#include <filesystem>
#include <fmt/core.h>

namespace kerf::tool {

namespace {

struct RunCommand {
  RunFlags flags;
  std::string folder, weights, report;
  int64_t ranks = 0;
  bool json = false;
  CLI::App *app = nullptr;

  int run() {
    auto resumed = openResumed(flags);
    if (!resumed)
      return fail(resumed.error());
    auto loaded = runtime::loadPackage(folder);
    if (!loaded)
      return fail(loaded.error());
    if (loaded->program.info.contains("plan") && loaded->program.info["plan"].is_object()) {
      Plan plan;
      plan.keptKeys = loaded->program.info["plan"];
      auto job = readJob(plan, folder);
      if (!job)
        return fail(job.error());
      if (*job)
        if (Status status = applyJobOptions(*app, **job, folder, JobPart::Run); !status)
          return fail(status.error());
    }
    auto unused = runtime::reasonCodeUnused(loaded->program, flags.device);
    if (!unused)
      return fail(unused.error());
    if (!unused->empty())
      printToStderr(fmt::format(
          "note: the machine code of the package is not used, and pointwise operators run one by one: {}\n", *unused));
    std::error_code code;
    const std::filesystem::path file = std::filesystem::path(folder) / package::kWeightsFile;
    if (weights.empty() && !flags.seed && !*resumed && !std::filesystem::exists(file, code))
      return fail({fmt::format(
          "the weights file '{}' does not exist; put the file there, give --weights FILE, or give --seed N to "
          "start from random initial weights",
          file.string())});
    int64_t needed = package::ranksOf(loaded->program);
    if (ranks && ranks != needed)
      return fail({fmt::format(
          "{} was compiled for {} ranks, but --ranks is {}; leave --ranks out, or compile again for {} ranks", folder,
          needed, ranks, ranks)});
    if (!weights.empty()) {
      auto given = readTensors(weights);
      if (!given)
        return fail(given.error());
      for (auto &[name, tensor] : *given)
        loaded->weights[name] = tensor;
    }
    auto note = *resumed ? checkCheckpointOptions(loaded->program, flags, **resumed) : Result<std::string>("");
    if (!note)
      return fail(note.error());
    std::optional<Report> saved;
    if (loaded->program.info.contains("report"))
      if (auto parsed = parseReport(loaded->program.info["report"], folder); parsed)
        saved = std::move(*parsed);
    auto done =
        runProgram(loaded->program, loaded->weights, flags, saved ? saved->warnings : std::vector<std::string>(),
                   {*resumed ? &**resumed : nullptr, *note}, json);
    if (!done)
      return fail(done.error());
    if (done->steps.empty())
      return 0; // not the first process, or nothing was left to train
    if (saved)
      addMeasured(*done, *saved);
    if (!report.empty() && saved)
      if (Status status = writeReport(*saved, report); !status)
        return fail(status.error());
    if (json)
      fmt::print("{}\n", summaryJson(loaded->program, *done, saved ? &*saved : nullptr).dump(2));
    return exitStatus(*done);
  }
};

} // namespace

void setUpRunCommand(CLI::App &app, int &status) {
  auto command = attachCommand<RunCommand>(app, status);
  command->app = &app;
  app.add_option("DIR", command->folder, "folder of the package, as `kerf compile` wrote it")->required();
  app.add_option("--ranks", command->ranks,
                 "number of ranks; only the number for which the package was compiled is accepted");
  app.add_option("--weights", command->weights,
                 "file of initial weights that replace the package's tensors of the same names: .safetensors or .npz");
  app.add_option("--report", command->report, kReportHelp);
  app.add_flag("--json", command->json, "print losses, measured times and the report as JSON");
  command->flags.addTo(app);
}

void addRunCommand(CLI::App &app, int &status) {
  setUpRunCommand(*app.add_subcommand(
                      "run",
                      "Train with a package that kerf compile wrote. Ranks are threads of this process, or processes "
                      "under mpirun and srun.\n"
                      "Example: kerf run package --data batches.npz --steps 20"),
                  status);
}

int runKerfRun(int argc, char **argv) {
  return runAsProgram(
      "kerf-run",
      "Train with a package that kerf compile wrote. This program is `kerf run` without the compiler: a node needs it "
      "and the package, and no MLIR or LLVM.\n\n"
      "Example: kerf-run package --data batches.npz --steps 20",
      setUpRunCommand, argc, argv);
}

} // namespace kerf::tool
