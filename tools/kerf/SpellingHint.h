// SPDX-License-Identifier: Apache-2.0
// Suggestions for misspelled commands and options.
#pragma once

#include <CLI/CLI.hpp>

namespace kerf::tool {

/// Returns the end of an error message about `word`, a command or an option that `command` does not have: "; did you
/// mean --optimizer?", or the other commands of `app` that have this option. Returns "" when no known name is similar.
std::string spellingHint(const CLI::App &app, const CLI::App &command, const std::string &word);

} // namespace kerf::tool
