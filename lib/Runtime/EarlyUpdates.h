// SPDX-License-Identifier: Apache-2.0
// Where optimizer updates stand in a rank's step.
#pragma once

#include "Flatten.h"

namespace kerf::runtime {

/// True of an optimizer's update of one parameter.
bool isUpdate(const FlatInstruction &instruction);
/// Which operand of an update is the gradient.
size_t gradientOperand(const FlatInstruction &update);

/// Moves each update to where its gradient is ready and its old parameter and states are needed no more, so that the
/// gradient's memory is free for the next one. Nothing else changes its order.
void moveUpdatesAhead(FlatProgram &flat);

} // namespace kerf::runtime
