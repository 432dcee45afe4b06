// SPDX-License-Identifier: Apache-2.0
// The options that change what a training computes. A checkpoint keeps them with the job of its plan, and a run that
// goes on from it takes them from there, so that nothing changes in the middle of a training without a word.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// Sets the options that were not given to those of the checkpoint. Fails for one that was given, differs, and cannot
/// change in the middle of a training. Returns a note on those that differ and are taken, or "".
Result<std::string> takeResumedOptions(CLI::App &command, const RunFlags &flags, const runtime::Checkpoint &resumed);

/// The same for a package, whose options were decided when it was compiled.
Result<std::string> compareResumedOptions(const package::Program &program, const RunFlags &flags,
                                          const runtime::Checkpoint &resumed);

} // namespace kerf::tool
