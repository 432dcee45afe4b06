// SPDX-License-Identifier: Apache-2.0
// Solves one core (Core.h): alternates dual ascents that prune the core with branch and bound and large neighbourhood
// search. Private to the Search room.
#pragma once

#include "Branch.h"
#include "ReductionStack.h"

namespace kerf::search {

/// The state of a search when it pruned its core. A warm start on a similar problem takes up the prices and messages
/// of one checkpoint after the other, and prunes as soon as its gap is about the checkpoint's.
struct PruneCheckpoint {
  MessagesByPair messages;
  std::vector<int64_t> moments; // the moment of each entry of `prices`
  std::vector<double> prices;   // cost units per byte
  double gap = kInfinity;       // cutoff minus lower bound, in cost units; infinite without an incumbent
};
/// The checkpoints of one search, in the order in which it pruned.
using PruneHistory = std::vector<PruneCheckpoint>;

/// The settings and callbacks of solveCore.
struct CoreSolverOptions {
  int threads = 1;
  Labels start;               // a choice to start from; it need not satisfy the memory constraint R; empty: none
  std::vector<double> prices; // initial prices, one for each row; empty: none
  const PruneHistory *history = nullptr; // of an earlier search of a core with the same variables; null: none
  /// Called with each choice of the core that satisfies the memory constraint R and costs less than the cutoff. Returns
  /// the new cutoff.
  std::function<double(const Labels &)> accept;
  /// Called when the bound or the best choice improves, with the lower bound of the core's cost.
  std::function<void(double)> report;
};

/// The outcome of solveCore; the choices themselves went to CoreSolverOptions::accept.
struct CoreSolverResult {
  /// Lower bound of the core's cost. +infinity: nothing is cheaper than the last accepted choice, or no choice exists.
  double bound = -kInfinity;
  /// Whether the search is complete. Where costs were rounded, `bound` may still be below the best choice's cost.
  bool closed = false;
  std::vector<double> prices; // the last prices, one for each row of the core
  PruneHistory history;       // for a warm start of a similar problem
  int64_t steps = 0;          // table entries that were read
};

/// Searches for the cheapest choice of `core` that satisfies the memory constraint R, until it is proven or `limits`
/// end the search.
CoreSolverResult solveCore(const Core &core, SearchLimits limits, const CoreSolverOptions &options);

} // namespace kerf::search
