// SPDX-License-Identifier: Apache-2.0
// Explains a solution of the placement problem: what each alternative strategy would cost at least, and what a byte of
// memory is worth.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf {

/// Sensitivity information about one solution of a placement problem.
struct SolutionExplanation {
  /// Lower bounds of the total cost when a node is forced to take a strategy, indexed by [node][strategy], over all
  /// choices within the memory limit; kUnboundedTotal: no such choice exists. The bounds come from the reduced costs of
  /// a dual, so the true cost may be higher but never lower.
  std::vector<std::vector<TotalCost>> lowerBounds;
  /// Cost units that one more byte of memory would save near the present limit: the sum of the moments' shadow prices.
  double costPerByte = 0;
};

/// Computes the explanation of `solution`, which must be a solution of `problem` that still has its prices.
SolutionExplanation explain(const Problem &problem, const Solution &solution);

} // namespace kerf
