// SPDX-License-Identifier: Apache-2.0
// The program kerf-profile: `kerf profile` without the compiler, for machines that only train.
#include "Command.h"
#include "ProfileCommand.h"

int main(int argc, char **argv) {
  CLI::App app{
      "Measure the speed of this machine and write it as a cluster file. This program is `kerf profile` without "
      "the compiler: a machine needs no MLIR or LLVM for it.\n\n"
      "Example: kerf-profile --device cuda -o here.json"};
  app.name("kerf-profile");
  app.set_version_flag("--version", KERF_VERSION);
  int status = 0;
  kerf::tool::setUpProfileCommand(app, status);
  return kerf::tool::runCommandLine(app, argc, argv, status);
}
