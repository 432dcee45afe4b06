// SPDX-License-Identifier: Apache-2.0
// Names the command-line options that would make an infeasible job feasible.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// Returns `error` with the options that make the job feasible, found by trial searches (findRemedies), added to its
/// message. Returns errors other than ExitStatus::Infeasible unchanged.
Error withRemedies(Error error, const PlanRequest &request, const PlanFlags &flags);

} // namespace kerf::tool
