// SPDX-License-Identifier: Apache-2.0
// Answers a placement problem. Exact within the budget on small problems, memory included; on large ones the best
// answer found and a lower bound. The mathematics: docs/search.md.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf {

struct SolveOptions {
  /// Elementary steps (table cells computed, search nodes visited) before the solver settles for what it has. Work and
  /// not seconds: the answer does not depend on the machine. The default is about half a second of one 2020s core.
  int64_t workBudget = 400'000'000;
  /// The answer is the same for any number. Reserved for solvers that use more than one; this one uses one.
  int threads = 1;
};

/// An Error only where `check` fails. A problem that nothing can satisfy is a Solution with `feasible` false.
/// Deterministic: ties are broken by (seconds, then the lower strategy index of the lower node as far as explored).
Result<Solution> solve(const Problem &problem, const SolveOptions &options = {});

/// The runner-up for one decision: the cheapest answer in which `node` takes another strategy than in `solution` (its
/// tied nodes follow). `feasible` is false when there is none.
Result<Solution> solveExcluding(const Problem &problem, const Solution &solution, int node,
                                const SolveOptions &options = {});

} // namespace kerf
