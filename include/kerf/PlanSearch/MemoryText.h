// SPDX-License-Identifier: Apache-2.0
// Lists the parts that take the memory of a device, for messages.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// The stage whose device needs the most.
const StageMemory &fullestStage(const Simulation &simulation);

/// "weights 12.55 GiB, gradients 25.10 GiB, optimizer states 75.30 GiB, activations 1.20 GiB, allocator and driver
/// 3.01 GiB": what the fullest stage holds at its peak, leaving out what is less than a thousandth of it.
std::string memoryText(const Simulation &simulation);

} // namespace kerf
