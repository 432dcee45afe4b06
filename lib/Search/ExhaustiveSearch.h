// SPDX-License-Identifier: Apache-2.0
// Depth-first search in integers, for small problems whose costs are too large to be exact in doubles. Private
// to the Search room.
#pragma once

#include "Core.h"
#include <optional>

namespace kerf::search {

/// The outcome of an exhaustive search.
struct ExhaustiveResult {
  std::vector<int> choice; // the cheapest choice found that is cheaper than the known one; empty: none was found
  bool complete = false;   // whether the search ended within its budget, which proves that no choice is cheaper
};

/// Enumerates the choices of `problem` that meet all constraints and cost less than `known` (absent: any cost). At most
/// `steps` partial choices are looked at.
ExhaustiveResult searchExhaustively(const Problem &problem, std::optional<TotalCost> known, int64_t steps);

} // namespace kerf::search
