// SPDX-License-Identifier: Apache-2.0
// Parses the command line of kerf and calls the libraries, which neither print nor exit.
#include "KerfCommand.h"
#include "CalibrateCommand.h"
#include "Options.h"
#include "ProfileCommand.h"
#include "RunCommand.h"

int kerf::tool::runKerf(int argc, char **argv) {
  CLI::App app{"Kerf finds the fastest plan for training a model on a cluster, proves how close the plan is to the "
               "best possible, "
               "explains it, and runs it.\n\n"
               "Example: kerf train model.onnx --data batches.npz --steps 20 --ranks 4"};
  app.name("kerf");
  app.set_version_flag("--version", KERF_VERSION);
  app.require_subcommand(1);
  int status = 0;
  addTrainCommand(app, status);
  addImportCommand(app, status);
  addPlanCommand(app, status);
  addCompileCommand(app, status);
  addRunCommand(app, status);
  addExplainCommand(app, status);
  addSolveCommand(app, status);
  addSimulateCommand(app, status);
  addCalibrateCommand(app, status);
  addProfileCommand(app, status);
  addExportCommand(app, status);
  addVerifyCommand(app, status);
  return runCommandLine(app, argc, argv, status);
}
