// SPDX-License-Identifier: Apache-2.0

// The pass "move-updates-ahead", which runs the optimizer's updates as early as possible.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Moves each update of a parameter to the point where its gradient is ready and the old parameter and optimizer states
/// have been read for the last time, so that the gradient's memory can be reused. All other instructions keep their
/// order. Returns how many instructions moved.
int64_t moveUpdatesAhead(package::FlatProgram &flat);

} // namespace kerf::steps
