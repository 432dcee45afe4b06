// SPDX-License-Identifier: Apache-2.0
// What a run tells of its steps and of its end: lines of --log and lines for people.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// The line of --log: step, loss, seconds. JSON has no infinity and no NaN: such a loss is null, and "nonfinite" names
/// it.
std::string logLine(const runtime::StepResult &step);

/// The line of progress, with its end.
std::string progressLine(const runtime::StepResult &step);

/// One line for a run that a signal has ended: after which step, and what it has written.
std::string stoppedText(const runtime::RunReport &report, const RunFlags &flags);

/// 0, or what a shell expects of a program that a signal has ended: 128 and its number.
int exitStatus(const runtime::RunReport &report);

/// Reads stop, skip or continue.
runtime::OnNan onNanFrom(const std::string &text);

} // namespace kerf::tool
