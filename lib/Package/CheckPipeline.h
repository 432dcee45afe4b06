// SPDX-License-Identifier: Apache-2.0
// The part of checkProgram that knows stages, microbatches and tasks.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// The mesh's axes `stage` and `microbatch` and the schedule belong together, and such a schedule exists.
Status checkSchedule(const Program &program);

/// After everything else of checkProgram: indices and types are right, transfer and accumulate have one operand and one
/// result.
Status checkPipeline(const Program &program, const Function &entry);

} // namespace kerf::package
