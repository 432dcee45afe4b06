// SPDX-License-Identifier: Apache-2.0
// Choices that fit, from choices that nearly do. Private to Search.
#pragma once

#include "State.h"

namespace kerf::search {

/// Moves of one variable and of two with a common table, each cheaper and within the rows, until none is left.
void descend(State &state);

/// Raises the prices of rows that overflow until a descent under them fits; false when that does not come about.
bool repair(State &state, std::vector<double> prices);

} // namespace kerf::search
