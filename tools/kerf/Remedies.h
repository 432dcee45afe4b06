// SPDX-License-Identifier: Apache-2.0
// Prints, as options of the command line, the changes that would make an infeasible job fit.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// The error of an infeasible job with the options that were found to make it feasible (findRemedies). Other errors
/// stay what they are.
Error withRemedies(Error error, const PlanRequest &request, const PlanFlags &flags);

} // namespace kerf::tool
