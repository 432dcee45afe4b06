// SPDX-License-Identifier: Apache-2.0
// Local search: makes a choice satisfy the memory constraint R (Core.h), and makes it cheaper. Private
// to the Search room.
#pragma once

#include "LocalSearchState.h"

namespace kerf::search {

/// Changes the labels of one variable, or of two variables with a common table, as long as a change lowers the cost and
/// the memory constraint R still holds. `state` must satisfy the memory constraint R at the start.
void descend(LocalSearchState &state);

/// Changes labels until the memory constraint R holds and nothing forbidden is taken: the prices of rows that overflow
/// are raised, and each variable takes its cheapest label under the prices. Returns whether that succeeded. `prices` is
/// in cost units per byte, one for each row.
bool repair(LocalSearchState &state, std::vector<double> prices);

} // namespace kerf::search
