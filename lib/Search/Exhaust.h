// SPDX-License-Identifier: Apache-2.0
// Depth-first search in whole numbers, for problems whose costs are too large for doubles. Private to Search.
#pragma once

#include "Core.h"
#include <optional>

namespace kerf::search {

struct Exhausted {
  std::vector<int> choice; // cheaper than what was known; empty: none found
  bool complete = false;   // nothing is cheaper than `choice`, or than what was known
};

Exhausted exhaust(const Problem &problem, std::optional<TotalCost> known, int64_t steps);

} // namespace kerf::search
