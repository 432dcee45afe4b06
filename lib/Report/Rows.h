// SPDX-License-Identifier: Apache-2.0
// Short texts that the text and the page share. Private to the room.
#pragma once

#include "kerf/CostModel/Simulator.h"
#include "kerf/Report/Report.h"

namespace kerf {

/// {0, 1, 2, 5} of 8 is "0-2, 5", all of them "all".
std::string stagesText(const std::vector<int64_t> &stages, int64_t count);
/// "loses 0.12 s to bubble, 0.05 s to waiting for data; wins 0.03 s of recomputation": the parts that decide.
std::string lossText(const Simulation &other, const Simulation &best);
/// "1 % more memory (819.20 MiB) would save at most about 0.1 ms of a step"; "" where it would save nothing.
std::string memoryWorthText(const Report &report);

} // namespace kerf
