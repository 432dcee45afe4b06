// SPDX-License-Identifier: Apache-2.0
// What a user meant who misspelled a command or an option.
#pragma once

#include <CLI/CLI.hpp>

namespace kerf::tool {

/// The end of a message about `word`, which `command` does not have: "; did you mean --optimizer?", or which other
/// commands of `app` have that option; "" where nothing is near.
std::string whatWasMeant(const CLI::App &app, const CLI::App &command, const std::string &word);

} // namespace kerf::tool
