// SPDX-License-Identifier: Apache-2.0
// What would make a job fit for which no plan does, as options of the command line.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// The error of an infeasible job with the options that were found to make it feasible (findRemedies). Other errors
/// stay what they are.
Error withRemedies(Error error, const PlanRequest &request, const PlanFlags &flags);

} // namespace kerf::tool
