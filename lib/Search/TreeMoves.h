// SPDX-License-Identifier: Apache-2.0
// Changes of many labels at once under memory prices. Private to the Search room.
//
// Tables that forbid pairs of labels tie variables together, so that no single change is allowed although a change of
// all of them together is cheaper. Where the variables that may change have no cycle among them, the cheapest labels of
// all of them together follow from one sweep up and one sweep down the trees (Hamze & de Freitas 2004).
#pragma once

#include "LocalSearchState.h"
#include "Random.h"

namespace kerf::search {

/// Draws a random set of variables that have no cycle among them and that no other variable can join without one. Gives
/// these variables the labels that cost the least together while all others keep theirs. A label costs its price in
/// `priced` ([variable][label], in cost units) besides the costs of the core. The state may violate the memory
/// constraint R before and after.
void moveTrees(LocalSearchState &state, const std::vector<std::vector<double>> &priced, Random &random);

} // namespace kerf::search
