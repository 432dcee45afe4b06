// SPDX-License-Identifier: Apache-2.0
// The program kerf-run: `kerf run` without the compiler, for nodes that only train.
#include "Command.h"
#include "RunCommand.h"

int main(int argc, char **argv) {
  CLI::App app{"Train with a package that kerf compile wrote. This program is `kerf run` without the compiler: a node "
               "needs it and the package, and no MLIR or LLVM.\n\n"
               "Example: kerf-run package --data batches.npz --steps 20"};
  app.name("kerf-run");
  app.set_version_flag("--version", KERF_VERSION);
  int status = 0;
  kerf::tool::setUpRunCommand(app, status);
  return kerf::tool::runCommandLine(app, argc, argv, status);
}
