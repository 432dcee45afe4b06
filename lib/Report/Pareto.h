// SPDX-License-Identifier: Apache-2.0
// Step time against memory, a dot for each plan. Private to the room.
#pragma once

#include "kerf/PlanSearch/Pareto.h"

namespace kerf {

/// What a step of the plan costs, in the currency of the cluster file; 0 where it gives no price.
double pricePerStep(const ParetoPlan &plan, const Cluster &cluster);

std::string paretoHtml(const std::vector<ParetoPlan> &plans, const Cluster &cluster);

} // namespace kerf
