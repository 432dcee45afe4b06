// SPDX-License-Identifier: Apache-2.0
// Reports as files: text, JSON or one HTML page, as the file's name ends.
#pragma once

#include "kerf/Compiler/Simulate.h"
#include "kerf/Report/Report.h"
#include "kerf/Report/StepReport.h"

namespace kerf::tool {

/// `.json` and `.html` mean what they say, all else text. With a cluster a page has the mesh drawn on it.
Status writeReport(const Report &report, const std::string &path, const Cluster *cluster = nullptr);
Status writeReport(const StepReport &report, const std::string &path);

/// The report of what was simulated with a trace; `cluster`: that the plan may use.
Result<StepReport> stepReport(const std::string &model, const Cluster &cluster, const Simulated &simulated);

} // namespace kerf::tool
