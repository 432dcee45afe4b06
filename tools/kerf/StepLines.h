// SPDX-License-Identifier: Apache-2.0
// Texts about the steps and the end of a run: lines of --log, and lines for the user.
#pragma once

#include "RunOptions.h"

namespace kerf::tool {

/// Returns the line of --log for one step: {"step": 0, "loss": 6.24, "seconds": 0.031}. An infinite or NaN loss, which
/// JSON cannot hold, is null, and the key "nonfinite" holds it as text.
std::string logLine(const runtime::StepResult &step);

/// Returns the progress line of one step for the user, with its newline.
std::string progressLine(const runtime::StepResult &step);

/// Returns one line on a run that a signal has ended: the last step, and the files that the run has written.
std::string stoppedText(const runtime::RunReport &report, const RunFlags &flags);

/// Returns 0, or 128 + N for a run that signal number N has ended, as shells expect.
int exitStatus(const runtime::RunReport &report);

/// Converts a value of --on-nan ("stop", "skip" or "continue") to the runtime's enumeration.
runtime::OnNan onNanFrom(const std::string &text);

} // namespace kerf::tool
