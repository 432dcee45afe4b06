// SPDX-License-Identifier: Apache-2.0
// The command that trains with a package: `kerf run`, and the program kerf-run, which has no compiler.
#pragma once

#include <CLI/CLI.hpp>

namespace kerf::tool {

/// Adds the argument and the options of the command to `app`, a subcommand or a program. The command stores its exit
/// status in `status`.
void setUpRunCommand(CLI::App &app, int &status);
/// Adds the command as the subcommand `run` of `app`.
void addRunCommand(CLI::App &app, int &status);
/// Runs the program kerf-run with these arguments, of which the first is the program's name. Returns the exit status.
int runKerfRun(int argc, char **argv);

} // namespace kerf::tool
