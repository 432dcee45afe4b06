// SPDX-License-Identifier: Apache-2.0

// The part of checkProgram that checks the lists of steps.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// Checks that there is a list of steps for each stage, that each list can be flattened (kerf/Package/FlatProgram.h),
/// and that no stage can wait forever for a message of another. The rest of the program must have been checked.
Status checkSteps(const Program &program);

} // namespace kerf::package
