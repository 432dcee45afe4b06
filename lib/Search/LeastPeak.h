// SPDX-License-Identifier: Apache-2.0
// The least peak that some choice has, by halving the limit. Private to Search.
#pragma once

#include "Branch.h"

namespace kerf::search {

struct LeastPeak {
  std::vector<int> choice; // empty: none was found that meets everything but the limit
  bool proven = false;     // none has less
};

LeastPeak findLeastPeak(const Problem &problem, Hunt budget);

} // namespace kerf::search
