// SPDX-License-Identifier: Apache-2.0
// The command that measures a machine: `kerf profile`, and the program kerf-profile, which has no compiler.
#pragma once

#include <CLI/CLI.hpp>

namespace kerf::tool {

/// Adds the options of the command to `app`, a subcommand or a program. The command stores its exit status in `status`.
void setUpProfileCommand(CLI::App &app, int &status);
/// Adds the command as the subcommand `profile` of `app`.
void addProfileCommand(CLI::App &app, int &status);
/// Runs the program kerf-profile with these arguments, of which the first is the program's name. Returns the exit
/// status.
int runKerfProfile(int argc, char **argv);

} // namespace kerf::tool
