// SPDX-License-Identifier: Apache-2.0
// The part of checkProgram that knows the lists of steps.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// After everything else of checkProgram: there is a list for each stage, each can be followed from entry to entry, and
/// no stage waits for a message that never comes.
Status checkSteps(const Program &program);

} // namespace kerf::package
