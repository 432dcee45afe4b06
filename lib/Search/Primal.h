// SPDX-License-Identifier: Apache-2.0
// Local search: makes a choice satisfy the memory constraint R (Core.h), and makes it cheaper. Private
// to the Search room.
#pragma once

#include "LocalSearchState.h"

namespace kerf::search {

/// Changes the labels of one variable, or of two variables with a common table, as long as a change lowers the cost and
/// the memory constraint R still holds. `state` must satisfy the memory constraint R at the start.
void descend(LocalSearchState &state);

/// Returns the price of the memory of each label in cost units, indexed by [variable][label]: bytes times price, summed
/// over the rows. `prices` is in cost units per byte, one for each row.
std::vector<std::vector<double>> pricesOfLabels(const Core &core, const std::vector<double> &prices);

/// Gives each variable in turn its cheapest label under costs and the memory prices `priced` ([variable][label], in
/// cost units), until nothing changes. The state may violate the memory constraint R.
void descendPriced(LocalSearchState &state, const std::vector<std::vector<double>> &priced);

/// Returns the least cost, in cost units, of the slack of a row whose limit `state` exceeds: a price of 0 could never
/// grow by multiplication.
double leastRowCost(const LocalSearchState &state, const std::vector<double> &prices);

/// Changes labels until the memory constraint R holds and nothing forbidden is taken: the prices of rows that overflow
/// are raised, and each variable takes its cheapest label under the prices. Returns whether that succeeded. `prices` is
/// in cost units per byte, one for each row.
bool repair(LocalSearchState &state, std::vector<double> prices);

} // namespace kerf::search
