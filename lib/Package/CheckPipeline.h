// SPDX-License-Identifier: Apache-2.0

// The part of checkProgram that checks pipeline stages, microbatches and tasks.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// Checks that the program has a schedule exactly when its mesh has the axis `stage` or `microbatch`, and that a
/// schedule of that name exists for these numbers of stages, microbatches and chunks.
Status checkSchedule(const Program &program);

/// Checks that every instruction, argument and result is on an existing stage and chunk, and that values pass between
/// stages only by `transfer` and from a microbatch to the whole step only by `accumulate`. The rest of the program must
/// have been checked.
Status checkPipeline(const Program &program, const Function &entry);

} // namespace kerf::package
