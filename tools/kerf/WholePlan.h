// SPDX-License-Identifier: Apache-2.0
// The search over whole plans (kerf plan --search whole). A whole plan decides pipeline stages, microbatches,
// recomputation and optimizer sharding besides the placement of operators.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// The output options of `kerf plan --search whole`.
struct WholePlanFlags {
  std::string output, report; // files for the plan and for the report; "": not written
  bool json = false;          // prints the plan as JSON instead of the report as text
  bool pareto = false;        // also searches the best plans for fewer ranks and for less memory
  std::optional<double> risk; // WholePlanCalls::risk
};

/// Searches for the fastest whole plan, prints it and writes the files of `flags`. The written plan stores its job, so
/// that kerf explain can search again later. `plan` holds the options from which `request` was built. Returns the exit
/// status.
int searchWholePlan(const CLI::App &command, const PlanRequest &request, const PlanFlags &plan,
                    const WholePlanFlags &flags);

} // namespace kerf::tool
