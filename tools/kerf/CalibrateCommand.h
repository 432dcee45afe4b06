// SPDX-License-Identifier: Apache-2.0
// The command kerf calibrate.
#pragma once

#include <CLI/CLI.hpp>

namespace kerf::tool {

/// Adds the subcommand to `app`. It stores its exit status in `status`.
void addCalibrateCommand(CLI::App &app, int &status);

} // namespace kerf::tool
