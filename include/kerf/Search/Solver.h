// SPDX-License-Identifier: Apache-2.0
// Solves the placement problem (Problem.h): returns the best choice found within a budget, and a proven lower bound of
// the optimum. docs/search.md describes the method.
#pragma once

#include "kerf/Search/Problem.h"
#include <functional>

namespace kerf {

/// The state of a running call of `solve`.
struct Progress {
  double seconds = 0;            // wall-clock seconds since the call
  std::optional<TotalCost> cost; // cost of the best choice so far that meets all constraints; absent: none yet
  TotalCost lowerBound = 0;      // no choice that meets all constraints costs less
};

/// Settings of the solver of placement problems (`solve`): its budget, its threads, and what it starts from.
struct SolveOptions {
  /// Elementary steps (table entries read) after which the search ends. The budget counts work and not seconds, so that
  /// the answer does not depend on the machine. The default takes about half a second on one core of the 2020s.
  int64_t workBudget = 400'000'000;
  /// Wall-clock seconds after which the search ends, instead of `workBudget`. The answer may then differ from run to
  /// run. Absent: the work budget counts.
  std::optional<double> seconds = {};
  /// Number of threads, 1 or more. With a work budget, equal thread counts give equal answers.
  int threads = 1;
  /// A choice to start from, one strategy for each node; it need not meet the memory limit. Empty: none.
  std::vector<int> start = {};
  /// The solution of a similar problem (with other costs, pins or memory limit), for a warm start from its choice,
  /// prices and dual. It must live until the call returns. Null: none.
  const Solution *previous = nullptr;
};

/// Solves `problem`. Fails only when `check` fails or an option is out of range; a problem without a solution
/// returns a Solution with `feasible` false. `progress` is called on the calling thread whenever the choice
/// or the bound improves.
Result<Solution> solve(const Problem &problem, const SolveOptions &options = {},
                       const std::function<void(const Progress &)> &progress = {});

/// Solves `problem` under each of several memory limits and returns the solutions in the same order. The largest limit
/// is solved first; each further search starts from the solution before it, or is skipped when that solution fits the
/// smaller limit too. Budgets of `options` hold for each search.
Result<std::vector<Solution>> sweep(const Problem &problem, const std::vector<int64_t> &memoryLimitsBytes,
                                    const SolveOptions &options = {});

/// Finds the runner-up for one decision: the cheapest choice in which `node` (and the nodes tied to it) takes another
/// strategy than in `solution`. `feasible` of the result is false when there is none.
Result<Solution> solveExcluding(const Problem &problem, const Solution &solution, int node,
                                const SolveOptions &options = {});

} // namespace kerf
