// SPDX-License-Identifier: Apache-2.0
// Tightens the bound of a core (Core.h) by joining variables. Private to the Search room.
//
// Message passing (Dual.h) bounds a core as if its tables only had to agree on the labels of single variables, which is
// loose around cycles. Two neighbouring variables can be joined into one, whose labels are the allowed pairs of their
// labels. The core then has the same choices at the same costs, but fewer cycles, so the same message passing proves
// more. Pairs that the bound rules out have no label, so that each join makes the next one cheaper.
#pragma once

#include "Branch.h"
#include "ReductionStack.h"

namespace kerf::search {

/// Joins pairs of neighbouring variables, first those whose tables grow the least for the cycles of three variables
/// that they close. No two joined pairs are neighbours. The joined core has at most `mostCells` table entries.
/// Returns nothing where no pair can be joined.
std::optional<Reduction> joinPairs(const Core &core, int64_t mostCells);

/// The result of a search by joining.
struct JoinedBound {
  double bound = -kInfinity; // lower bound of the core's cost; +infinity: no choice is below the cutoff
  /// The labels of the core that may be part of a choice below the cutoff, as 1, indexed by [variable][label].
  std::vector<std::vector<char>> possible;
};

/// Alternates ascents of the dual, prunings and joins until the core is solved, no join fits into the step budget, or
/// `limits` end the search. Calls `onChoice` with each choice below the cutoff that it finds.
JoinedBound boundByJoining(const Core &core, const std::vector<double> &prices, SearchLimits &limits,
                           const OnChoice &onChoice);

} // namespace kerf::search
