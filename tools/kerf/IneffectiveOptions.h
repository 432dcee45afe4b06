// SPDX-License-Identifier: Apache-2.0
// Refuses options that would have no effect beside the other options of the command.
#pragma once

#include "kerf/Support/Result.h"
#include <CLI/CLI.hpp>
#include <set>

namespace kerf::tool {

/// Returns the names of the options that the user typed on the command line, without "--".
std::set<std::string> typedOptions(const CLI::App &command);

/// Fails when an option in `typed` has no effect under the current values of the command's other options, such as
/// --momentum with --optimizer adamw, or --total with a constant learning rate.
Status checkOptionsTakeEffect(const CLI::App &command, const std::set<std::string> &typed);

} // namespace kerf::tool
