// SPDX-License-Identifier: Apache-2.0
// The program kerf: parses the command line and calls the libraries, which neither print nor exit.
#include "Options.h"
#include "ProfileCommand.h"
#include "RunCommand.h"

int main(int argc, char **argv) {
  CLI::App app{"Kerf finds the fastest plan for training a model on a cluster, proves how close the plan is to the "
               "best possible, "
               "explains it, and runs it.\n\n"
               "Example: kerf train model.onnx --data batches.npz --steps 20 --ranks 4"};
  app.name("kerf");
  app.set_version_flag("--version", KERF_VERSION);
  app.require_subcommand(1);
  int status = 0;
  kerf::tool::addTrainCommand(app, status);
  kerf::tool::addImportCommand(app, status);
  kerf::tool::addPlanCommand(app, status);
  kerf::tool::addCompileCommand(app, status);
  kerf::tool::addRunCommand(app, status);
  kerf::tool::addExplainCommand(app, status);
  kerf::tool::addSolveCommand(app, status);
  kerf::tool::addSimulateCommand(app, status);
  kerf::tool::addProfileCommand(app, status);
  kerf::tool::addExportCommand(app, status);
  kerf::tool::addVerifyCommand(app, status);
  return kerf::tool::runCommandLine(app, argc, argv, status);
}
