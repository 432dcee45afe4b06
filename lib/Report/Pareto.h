// SPDX-License-Identifier: Apache-2.0
// Step time against memory, a dot for each plan. Private to the room.
#pragma once

#include "kerf/PlanSearch/Pareto.h"

namespace kerf {

/// `pricePerHour` of a device; 0: not known, and no money is shown.
std::string paretoHtml(const std::vector<ParetoPlan> &plans, double pricePerHour);

} // namespace kerf
