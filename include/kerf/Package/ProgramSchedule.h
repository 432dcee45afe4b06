// SPDX-License-Identifier: Apache-2.0

// The pipeline schedule of a device program.
#pragma once

#include "kerf/Package/Package.h"
#include "kerf/Schedule/Schedule.h"

namespace kerf::package {

/// Generates the pipeline schedule that Program::schedule names, for the program's stages and microbatches. The program
/// must have a schedule. Fails if there is no schedule of that name, or none for these numbers.
Result<Schedule> scheduleOf(const Program &program);

} // namespace kerf::package
