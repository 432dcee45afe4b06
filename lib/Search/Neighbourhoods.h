// SPDX-License-Identifier: Apache-2.0
// Improves a choice by freeing a connected group of variables at a time and answering that small problem by branch and
// bound under the true memory rows (large neighbourhood search). Private to Search.
#pragma once

#include "DepthFirst.h"

namespace kerf::search {

/// `secondsPerByte` guides the bounds. Ends when `steps` run out, the incumbent reaches `bound`, or many groups in a
/// row brought nothing. Deterministic.
void improveByGroups(const Network &network, const std::vector<double> &secondsPerByte, double bound,
                     Incumbent &incumbent, int64_t &steps);

} // namespace kerf::search
