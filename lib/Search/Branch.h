// SPDX-License-Identifier: Apache-2.0
// Branch and bound over a core (Core.h). A subproblem is bounded by the dual, labels that the bound rules out are
// forbidden, the rest is reduced (Reduce.h), and a variable's labels are split in two. Private to the Search room.
#pragma once

#include "Ascent.h"
#include <functional>

namespace kerf::search {

/// Called with a choice of a core's labels that satisfies the memory constraint R and costs less than the cutoff.
using OnChoice = std::function<void(const Labels &)>;

/// The cutoff and the remaining budget of one search. All parts of the search share the object and lower the cutoff
/// when they find a choice.
struct SearchLimits {
  double cutoff = kInfinity;      // cost units of the core; only choices that cost less are of interest
  bool hasIncumbent = false;      // whether the cutoff is the cost of a known choice, not just an upper limit
  double leastCostStep = 0;       // two choices of different cost differ by at least this many cost units; 0: unknown
  bool exact = true;              // whether the core's cost is the problem's cost, not a lower bound of it
  int64_t stepsLeft = 0;          // table entries that may still be read
  std::function<bool()> timeIsUp; // returns true once the time budget is used up; empty: no time budget

  /// Returns whether a subproblem with this lower bound contains no choice below the cutoff.
  bool prunes(double bound) const { return leastCostStep > 0 ? bound > cutoff - leastCostStep : bound >= cutoff; }
  /// Returns the largest reduced cost that a label may have, given a lower bound, to be part of a better choice.
  double prunableGap(double bound) const { return cutoff - leastCostStep - bound; }
  /// Returns a width for Dual::expectedBytes: a fixed part of the gap between bound and cutoff; 0 without an incumbent.
  double undecidedWidth(double bound) const { return hasIncumbent ? std::max(0.02 * (cutoff - bound), 0.0) : 0.0; }
  /// Returns whether the step budget or the time budget is used up.
  bool exhausted() const { return stepsLeft <= 0 || (timeIsUp && timeIsUp()); }
};

/// Rounds the dual to a choice, repairs it until it satisfies the memory constraint R, improves it by local search, and
/// calls `onChoice` when its cost is below the cutoff.
void offerRoundedChoice(const Core &core, const Dual &dual, const std::vector<double> &prices, SearchLimits &limits,
                        const OnChoice &onChoice);

/// Searches the choices of `core` below the cutoff by branch and bound and calls `onChoice` for each better one. At
/// most `nodes` subproblems are opened; `nodes` is counted down. Returns a lower bound, in cost units, of the choices
/// that were left unexplored; +infinity when none was.
double branch(const Core &core, const std::vector<double> &prices, SearchLimits &limits, int64_t &nodes,
              const OnChoice &onChoice);

} // namespace kerf::search
