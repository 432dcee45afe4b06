// SPDX-License-Identifier: Apache-2.0
// Large neighbourhood search: most variables keep their labels, and the few free ones are solved by branch and bound.
// Private to the Search room.
#pragma once

#include "Branch.h"
#include "LocalSearchState.h"
#include "Random.h"

namespace kerf::search {

/// The number of labels that are free in one neighbourhood, for each kind of neighbourhood. A size grows when its last
/// neighbourhood was solved to the end and shrinks otherwise.
struct NeighbourhoodSizes {
  double ball = 150;  // variables around one random variable
  double balls = 150; // variables around two or three random variables
  double row = 100;   // variables with bytes in one full row
};

/// Improves `state`, whose choice must satisfy the memory constraint R, by solving `count` random neighbourhoods with
/// at most `nodes` subproblems each. Adapts `sizes`. Returns whether the choice became cheaper.
bool searchNeighbourhoods(LocalSearchState &state, const std::vector<double> &prices, SearchLimits &limits, int count,
                          int64_t nodes, NeighbourhoodSizes &sizes, Random &random);

} // namespace kerf::search
