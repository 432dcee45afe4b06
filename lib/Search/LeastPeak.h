// SPDX-License-Identifier: Apache-2.0
// The least memory that any choice needs. Private to Search.
#pragma once

#include "DepthFirst.h"

namespace kerf::search {

struct LeastPeak {
  Incumbent incumbent; // its peakBytes; labels empty when nothing meets the forbidden pairs within the budget
  bool proven = false; // no choice has a lower peak, or `incumbent` fits (the search stops there)
};

/// Minimizes the largest row. `steps` counts down.
LeastPeak findLeastPeak(const Network &network, int64_t cellLimit, int64_t &steps);

} // namespace kerf::search
