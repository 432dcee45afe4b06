// SPDX-License-Identifier: Apache-2.0
// The command line: thin over the libraries; the only place that prints and exits.
#include "Checks.h"
#include "Options.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/core.h>

static kerf::Error lost() { return {fmt::format("cannot write the output: {}", std::strerror(errno))}; }

int main(int argc, char **argv) {
  CLI::App app{"Kerf finds the fastest way to train a model on a cluster, says how good it is and why, and runs it.\n\n"
               "Example: kerf train model.onnx --data batches.npz --steps 20 --ranks 4"};
  app.name("kerf");
  app.set_version_flag("--version", KERF_VERSION);
  app.require_subcommand(1);
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an error of the write, as a full disk is
  int status = 0;
  kerf::tool::addTrain(app, status);
  kerf::tool::addImport(app, status);
  kerf::tool::addPlan(app, status);
  kerf::tool::addCompile(app, status);
  kerf::tool::addRun(app, status);
  kerf::tool::addExplain(app, status);
  kerf::tool::addSolve(app, status);
  kerf::tool::addSimulate(app, status);
  kerf::tool::addProfile(app, status);
  kerf::tool::addExport(app, status);
  kerf::tool::addVerify(app, status);
  kerf::tool::learnOptions(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return kerf::tool::tellUsage(app, error);
  } catch (const std::exception &error) {
    if (std::ferror(stdout))
      return kerf::tool::fail(lost());
    return kerf::tool::fail(
        {fmt::format("an internal check failed: {}", error.what()), kerf::ExitStatus::InternalCheck});
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return kerf::tool::fail(lost());
  return status;
}
