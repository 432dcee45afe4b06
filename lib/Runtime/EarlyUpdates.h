// SPDX-License-Identifier: Apache-2.0
// Where optimizer updates stand in a rank's step.
#pragma once

#include "Flatten.h"

namespace kerf::runtime {

/// True of an instruction of an optimizer's update of one parameter.
bool isUpdate(const FlatInstruction &instruction);
/// The values that are gradients: updates read them, and nothing of an update or from outside of the step makes them.
std::vector<int> gradientsOf(const FlatProgram &flat);

/// Moves each update to where its gradient is ready and its old parameter and states are needed no more, so that the
/// gradient's memory is free for the next one. Nothing else changes its order.
void moveUpdatesAhead(FlatProgram &flat);

} // namespace kerf::runtime
