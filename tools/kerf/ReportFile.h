// SPDX-License-Identifier: Apache-2.0
// Writes reports to files, as text, JSON or one HTML page according to the suffix of the file name.
#pragma once

#include "kerf/Report/Report.h"
#include "kerf/Report/StepReport.h"

namespace kerf::tool {

/// Writes the report of a placement to `path`: JSON for `.json`, a page for `.html`, text for any other suffix. With a
/// `cluster`, the page shows a drawing of the mesh. Fails when the file cannot be written.
Status writeReport(const Report &report, const std::string &path, const Cluster *cluster = nullptr);
/// Returns the report with the settings in its warnings written as options.
StepReport spelled(StepReport report);
/// Writes the report of a simulated plan to `path`, in the form that the suffix selects as above.
Status writeReport(const StepReport &report, const std::string &path);

} // namespace kerf::tool
