// SPDX-License-Identifier: Apache-2.0
// Answers a placement problem: the best answer found within a budget, and a lower bound that it can't be below. The
// mathematics: docs/search.md.
#pragma once

#include "kerf/Search/Problem.h"
#include <functional>

namespace kerf {

struct Progress {
  double seconds = 0; // since the call
  std::optional<TotalCost> cost;
  TotalCost lowerBound = 0;
};

struct SolveOptions {
  /// Elementary steps (table cells looked at) before the solver settles for what it has. Work and not seconds: the
  /// answer does not depend on the machine. The default is about half a second of one 2020s core.
  int64_t workBudget = 400'000'000;
  /// Wall seconds instead of work: the answer may then differ from machine to machine and run to run. Absent: none.
  std::optional<double> seconds = {};
  /// With a work budget the answer is the same whenever the number of threads is.
  int threads = 1;
  /// An answer to start from, one strategy per node; it need not fit. Empty: none.
  std::vector<int> start = {};
  /// The solution of a problem that differs a little (costs, pins, the limit): its choice, prices and dual are where
  /// this search starts. Must live during the call.
  const Solution *after = nullptr;
};

/// An Error only where `check` fails or `start` has the wrong length or range. A problem that nothing can satisfy is a
/// Solution with `feasible` false. `progress` is called when the answer or the bound gets better, on the calling
/// thread.
Result<Solution> solve(const Problem &problem, const SolveOptions &options = {},
                       const std::function<void(const Progress &)> &progress = {});

/// The best answers under several limits, in the order given, from the largest limit to the smallest: each search
/// starts from the last one, and answers that fit a smaller limit too are not looked for again. The options, work and
/// seconds too, are for each.
Result<std::vector<Solution>> sweep(const Problem &problem, const std::vector<int64_t> &memoryLimitsBytes,
                                    const SolveOptions &options = {});

/// The runner-up for one decision: the cheapest answer in which `node` takes another strategy than in `solution` (its
/// tied nodes follow). `feasible` is false when there is none.
Result<Solution> solveExcluding(const Problem &problem, const Solution &solution, int node,
                                const SolveOptions &options = {});

} // namespace kerf
