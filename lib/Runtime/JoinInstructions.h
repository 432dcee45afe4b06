// SPDX-License-Identifier: Apache-2.0
// Groups of a product and the instructions that a device computes in the same call, as one instruction each.
#pragma once

#include "BufferPlan.h"

namespace kerf::runtime {

/// Replaces each marked group (FlatInstruction::joined) by one instruction with the group's operands and results, if
/// the device joins products. The product is left out of the results where only the group uses it; it gets no buffer.
void joinInstructions(FlatProgram &flat, const Device &device);

/// Gives each product that only its group uses the buffer of the group's result that may be written over it.
void placeInsideOfGroups(const FlatProgram &flat, const Device &device, BufferPlan &buffers);

} // namespace kerf::runtime
