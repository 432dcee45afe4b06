// SPDX-License-Identifier: Apache-2.0
// Options that change the results of a training, in a run that resumes from a checkpoint. A checkpoint stores these
// options with the job of its plan. The resumed run takes the options from the checkpoint, so that none changes
// silently in the middle of a training.
#pragma once

#include "RunOptions.h"

namespace kerf::tool {

/// Sets each option of `command` that was not typed to the value stored in the checkpoint. Returns a note on the typed
/// options that differ from the checkpoint, or "". Fails when a typed option differs that cannot change in the middle
/// of a training, such as --optimizer.
Result<std::string> applyCheckpointOptions(CLI::App &command, const RunFlags &flags,
                                           const runtime::Checkpoint &resumed);

/// Compares the options with which the package was compiled with those stored in the checkpoint. Returns a note on the
/// options that differ, or "". Fails when an option differs that cannot change in the middle of a training.
Result<std::string> checkCheckpointOptions(const package::Program &program, const RunFlags &flags,
                                           const runtime::Checkpoint &resumed);

} // namespace kerf::tool
