// SPDX-License-Identifier: Apache-2.0

// Short texts that the text report and the HTML report share. Internal to the Report library.
#pragma once

#include "kerf/CostModel/Simulator.h"
#include "kerf/Report/Report.h"

namespace kerf {

/// Returns the numbers of pipeline stages as text: {0, 1, 2, 5} of `count` 8 is "0-2, 5", and all of them are "all".
std::string stagesText(const std::vector<int64_t> &stages, int64_t count);
/// Returns the largest differences of a plan's step to the best plan's: "slower in: bubble 0.12 s; faster in:
/// recomputation 0.03 s".
std::string lossText(const Simulation &other, const Simulation &best);
/// Returns what more memory would be worth: "1 % more memory (819.20 MiB) would shorten the step by at most about 0.1
/// ms"; "" if that is less than 0.01 % of the step.
std::string memoryWorthText(const Report &report);

} // namespace kerf
