// SPDX-License-Identifier: Apache-2.0
// Describes, for messages, what the memory of a device is used for.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// Returns the memory of the stage whose device needs the most bytes.
const StageMemory &fullestStage(const Simulation &simulation);

/// Returns the uses of memory on the fullest stage at its peak, such as "weights 12.55 GiB, gradients 25.10 GiB,
/// optimizer states 75.30 GiB, activations 1.20 GiB, allocator and driver 3.01 GiB". Uses below a thousandth of the
/// device's bytes are omitted.
std::string memoryText(const Simulation &simulation);

} // namespace kerf
