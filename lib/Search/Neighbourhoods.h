// SPDX-License-Identifier: Apache-2.0
// Large neighbourhood search: some variables are freed and answered by branch and bound, the others held. Private to
// Search.
#pragma once

#include "Branch.h"
#include "State.h"
#include <cstdint>

namespace kerf::search {

/// Small, the same on every machine (SplitMix64: Steele, Lea & Flood 2014).
struct Random {
  uint64_t state = 0;
  uint64_t next();
  int below(int bound) { return static_cast<int>(next() % static_cast<uint64_t>(bound)); }
};

/// How many labels are freed at once, by kind of neighbourhood; follows what the budget of one can prove.
struct Sizes {
  double ball = 150, balls = 150, row = 100;
};

/// Improves `state`, whose choice must fit, by `count` neighbourhoods of at most `nodes` subproblems each. True when it
/// did.
bool searchNeighbourhoods(State &state, const std::vector<double> &prices, Hunt &hunt, int count, int64_t nodes,
                          Sizes &sizes, Random &random);

} // namespace kerf::search
