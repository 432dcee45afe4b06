// SPDX-License-Identifier: Apache-2.0

// Drawing and table of plans that trade step time for memory or ranks, for the HTML report. Internal to the
// Report library.
#pragma once

#include "kerf/PlanSearch/Pareto.h"

namespace kerf {

/// Returns an SVG chart of step time against device memory, with a dot for each plan, and a table of the plans.
/// `pricePerHour` is the price of one device; with 0 (unknown), the table has no prices.
std::string paretoHtml(const std::vector<ParetoPlan> &plans, double pricePerHour);

} // namespace kerf
