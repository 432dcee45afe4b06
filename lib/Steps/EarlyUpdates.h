// SPDX-License-Identifier: Apache-2.0
// The pass that moves the optimizer's updates forward in a rank's step.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Moves each update to where its gradient is ready and its old parameter and states are needed no more, so that the
/// gradient's memory is free for the next one. Nothing else changes its order.
/// Returns how many instructions moved.
int64_t moveUpdatesAhead(package::FlatProgram &flat);

} // namespace kerf::steps
