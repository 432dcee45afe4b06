// SPDX-License-Identifier: Apache-2.0
// Finds the least peak memory of any choice, by bisection of the memory limit. Private to the Search room.
#pragma once

#include "Branch.h"

namespace kerf::search {

/// The choice with the least peak memory that was found.
struct LeastPeak {
  std::vector<int> choice; // one strategy for each node; empty: no choice was found, even without a memory limit
  bool proven = false;     // whether no choice has a lower peak
};

/// Searches for the choice of `problem` with the least peak; costs are ignored. `limits` bounds the whole bisection.
LeastPeak findLeastPeak(const Problem &problem, SearchLimits limits);

} // namespace kerf::search
