// SPDX-License-Identifier: Apache-2.0
// kerf calibrate: adjusts a cluster file to measured training steps.
#include "CalibrateCommand.h"
#include "Checks.h"
#include "Options.h"
#include "kerf/Compiler/Calibrate.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Support/File.h"
#include <filesystem>
#include <fmt/core.h>

namespace kerf::tool {

namespace {

struct CalibrateCommand {
  std::string cluster, runs, trainer, output, next;
  std::vector<std::string> nccl, products;
  bool json = false;

  /// Reads the runs; none without --runs.
  Result<std::vector<MeasuredRun>> readRuns() const {
    if (runs.empty())
      return std::vector<MeasuredRun>();
    auto text = readFile(runs);
    if (!text)
      return text.error();
    return parseRuns(*text, runs, std::filesystem::path(runs).parent_path().string());
  }
  /// Returns what `parse` reads from all files together.
  template <typename T>
  static Result<std::vector<T>> readAll(const std::vector<std::string> &files,
                                        Result<std::vector<T>> (*parse)(std::string_view, const std::string &)) {
    std::vector<T> all;
    for (const std::string &file : files) {
      auto text = readFile(file);
      if (!text)
        return text.error();
      auto rows = parse(*text, file);
      if (!rows)
        return rows.error();
      all.insert(all.end(), rows->begin(), rows->end());
    }
    return all;
  }

  int run() {
    auto machines = readCluster(cluster);
    if (!machines)
      return fail(machines.error());
    auto measured = readRuns();
    if (!measured)
      return fail(measured.error());
    auto collectives = readAll(nccl, parseNcclTests);
    if (!collectives)
      return fail(collectives.error());
    auto benchmarked = readAll(products, parseProducts);
    if (!benchmarked)
      return fail(benchmarked.error());
    const Trainer &by = trainer.empty() ? ownTrainer() : *findTrainer(trainer);
    auto context = createContext();
    auto calibration = calibrate(*context, *machines, by, {*measured, *collectives, *benchmarked});
    if (!calibration)
      return fail(calibration.error());
    if (!output.empty())
      if (Status status = writeCluster(calibration->cluster, output); !status)
        return fail(status.error());
    if (!next.empty()) {
      if (!calibration->next)
        return fail({"no further run can be proposed: every variant of the runs is impossible; add rows without a "
                     "measured time to the runs"});
      if (Status status = writeFile(next, toJson(calibration->next->plan)); !status)
        return fail(status.error());
    }
    if (json)
      fmt::print("{}\n", toJson(*calibration).dump(2));
    else
      fmt::print("{}", toText(*calibration, std::string(by.title)));
    return 0;
  }
};

} // namespace

void addCalibrateCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<CalibrateCommand>(
      app, "calibrate",
      "Adjust a cluster file to measurements: a few short runs of one or more plans on some of the machines, profiles "
      "of their kernels, and benchmarks of collectives and products.\n"
      "Prints each run's predicted seconds with their 80 % interval before and after, the factor of each kind of work, "
      "and which run would tell the most next. Runs without a measured time are predicted too, and are the candidates "
      "for the next measurement.\n"
      "Example: kerf calibrate clusters/p5.json --for megatron --runs runs.csv -o mine.json --next plan.json",
      status);
  sub->add_option("CLUSTER", command->cluster, "cluster.json of the machines, such as a file of clusters/")->required();
  addTrainer(*sub, command->trainer);
  sub->add_option("--runs", command->runs,
                  "CSV file with a line for each run, with the columns of benchmarks/published/README.md: layers, "
                  "hidden, heads, seq, gpus, tp, pp, mbs, gbs, dtype, iter_time_s, ...; or with files in the columns "
                  "model and plan, and a profile of kernels (PyTorch's trace or the CSV of nsys stats) in the column "
                  "profile");
  sub->add_option("--nccl", command->nccl,
                  "output of a program of nccl-tests, such as all_reduce_perf, on the first ranks of the cluster; may "
                  "be given several times");
  sub->add_option(
      "--products", command->products,
      "CSV file of benchmarked matrix products with the columns m, n, k, a time (seconds, ms, us) or rate "
      "(tflops), and perhaps batch and dtype; or the output of cutlass_profiler; may be given several times");
  sub->add_option("-o,--output", command->output, "file for the adjusted cluster: cluster.json")->check(writableFile());
  sub->add_option("--next", command->next, "file for the plan whose measurement would tell the most: plan.json")
      ->check(writableFile());
  sub->add_flag("--json", command->json, "print the result as JSON");
}

} // namespace kerf::tool
