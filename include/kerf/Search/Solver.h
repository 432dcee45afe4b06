// SPDX-License-Identifier: Apache-2.0
// Answers a placement problem. Exact within the budget on small problems, memory included; on large ones the best
// answer found and a lower bound. The mathematics: docs/search.md.
#pragma once

#include "kerf/Search/Problem.h"
#include <functional>

namespace kerf {

/// How far a search is: the best answer that fits, if any is known yet, and what none costs less than.
struct Progress {
  double seconds = 0; // since the call
  std::optional<TotalCost> cost;
  TotalCost lowerBound = 0;
};

struct SolveOptions {
  /// Elementary steps (table cells computed, search nodes visited) before the solver settles for what it has. Work and
  /// not seconds: the answer does not depend on the machine. The default is about half a second of one 2020s core.
  int64_t workBudget = 400'000'000;
  /// Wall seconds instead of work: the answer may then differ from machine to machine and run to run. Absent: none.
  std::optional<double> seconds = {};
  /// With a work budget the answer is the same for any number.
  int threads = 1;
  /// An answer to start from, one strategy per node; it need not fit. Empty: none.
  std::vector<int> start = {};
};

/// An Error only where `check` fails or the options are at fault. A problem that nothing can satisfy is a Solution with
/// `feasible` false. `progress` is called from the calling thread whenever the cost or the bound has changed, and at
/// the end with what is returned. Deterministic under a work budget: ties are broken by (cost, then the lower strategy
/// index of the lower node as far as explored).
Result<Solution> solve(const Problem &problem, const SolveOptions &options = {},
                       const std::function<void(const Progress &)> &progress = {});

/// The runner-up for one decision: the cheapest answer in which `node` takes another strategy than in `solution` (its
/// tied nodes follow). `feasible` is false when there is none.
Result<Solution> solveExcluding(const Problem &problem, const Solution &solution, int node,
                                const SolveOptions &options = {});

} // namespace kerf
