// SPDX-License-Identifier: Apache-2.0
// The run of a program with the options of the command line, and what is measured of it.
#pragma once

#include "RunOptions.h"
#include "kerf/Report/Report.h"
#include "kerf/Runtime/Checkpoint.h"

namespace kerf::tool {

/// Opens the checkpoint of --resume; returns nothing without --resume. Reads only the checkpoint's index, so that a
/// wrong checkpoint is reported before any long work.
Result<std::optional<runtime::Checkpoint>> openResumed(const RunFlags &flags);

/// The checkpoint that a run continues from.
struct ResumeState {
  const runtime::Checkpoint *checkpoint = nullptr; // null: the run starts at step 0
  std::string note; // lines for the user on options that differ from those of the checkpoint; may be empty
};

/// Runs a program and writes the files that `flags` ask for. Prints `warnings` and the trained tensors on standard
/// error before the first step, and a line for each step unless `quiet`. Fails when data, checkpoint or device do not
/// fit the program.
Result<runtime::RunReport> runProgram(const package::Program &program, const TensorMap &weights, const RunFlags &flags,
                                      const std::vector<std::string> &warnings, const ResumeState &from, bool quiet);

/// Writes the step time, the communication and the memory that a run measured into its report.
void addMeasured(const runtime::RunReport &run, Report &report);

/// Returns the results of a run as --json prints them: losses, learning rates, evaluations, measured times, and the
/// report where it is not null.
nlohmann::ordered_json summaryJson(const package::Program &program, const runtime::RunReport &run,
                                   const Report *report);

} // namespace kerf::tool
