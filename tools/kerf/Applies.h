// SPDX-License-Identifier: Apache-2.0
// Options that would be ignored are refused.
#pragma once

#include "kerf/Support/Result.h"
#include <CLI/CLI.hpp>
#include <set>

namespace kerf::tool {

/// Returns the names of the options that were typed on the command line, without "--".
std::set<std::string> typedOptions(const CLI::App &command);

/// Refuses options in `typed` that change nothing beside the command's other options, as they are now: --momentum of
/// adamw, --total of a constant learning rate.
Status checkApplies(const CLI::App &command, const std::set<std::string> &typed);

} // namespace kerf::tool
