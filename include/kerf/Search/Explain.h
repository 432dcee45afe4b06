// SPDX-License-Identifier: Apache-2.0
// Why a solution is as it is: what every other strategy would cost at least, and what memory is worth.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf {

struct SolutionExplanation {
  /// [node][strategy]: no choice that fits and takes it costs less; kUnboundedTotal: none does. From the reduced costs
  /// of a dual under the solution's prices, so it may be below what the strategy really costs, never above.
  std::vector<std::vector<TotalCost>> atLeast;
  /// What one byte more of the limit would save at about this limit, in cost units: the sum of the moments' prices.
  double costPerByte = 0;
};

/// `solution` must be one of `problem`, with its prices.
SolutionExplanation explain(const Problem &problem, const Solution &solution);

} // namespace kerf
