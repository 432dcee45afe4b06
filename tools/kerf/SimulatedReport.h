// SPDX-License-Identifier: Apache-2.0
// The report of a plan that was simulated.
#pragma once

#include "ReportFile.h"
#include "kerf/Compiler/Simulate.h"

namespace kerf::tool {

/// Builds the report of a plan that was simulated with Trace::Yes. `cluster` has the ranks that the plan may use.
Result<StepReport> stepReport(const std::string &model, const Cluster &cluster, const SimulatedPlan &simulated);

} // namespace kerf::tool
