// SPDX-License-Identifier: Apache-2.0
// The placement problem as plain data: one strategy per node, least seconds, memory under a limit at every moment.
//
//   minimize   sum_i seconds_i(x_i)  +  sum_(u,v) seconds_uv(x_u, x_v)                                   (objective)
//   a.  x_i in {0 .. strategies_i - 1}
//   b.  x_i = x_j                                          for i, j in one tie
//   c.  x_i = s                                            for a pin (i, s)
//   d.  seconds_uv(x_u, x_v) < inf                         a pair whose entry is +inf is forbidden
//   e.  sum over usages u live at t, count_u(t) * bytes_u(x_node(u)) <= memoryLimitBytes     for every moment t
//
// How often a node runs (a folded layer, a microbatch) is already multiplied into its seconds by who builds the
// problem.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// One decision. `seconds[s]` >= 0, or +inf: the strategy is forbidden. At least one strategy.
struct ProblemNode {
  std::string name; // for messages
  std::vector<double> seconds;
};

/// `seconds[a * strategies(v) + b]` is what u in a and v in b cost together, >= 0 or +inf. u != v; several edges
/// between a pair add up, in either direction.
struct ProblemEdge {
  int u = 0, v = 0;
  std::vector<double> seconds;
};

/// Half open: live at begin, no longer at end.
struct LiveInterval {
  int64_t begin = 0, end = 0;
};

/// Memory that depends on one node's strategy. A node may own several (a parameter, its gradient, its states). A usage
/// with several intervals is several buffers of one size (a layer that is called many times): where they overlap in
/// time they add up.
struct MemoryUsage {
  int node = 0;
  std::vector<LiveInterval> live;
  std::vector<int64_t> bytes; // per strategy of `node`, >= 0
};

struct Pin {
  int node = 0;
  int strategy = 0;
};

struct Problem {
  std::vector<ProblemNode> nodes;
  std::vector<ProblemEdge> edges;
  std::vector<MemoryUsage> usages;
  /// Groups of nodes that take the same strategy index; all of one number of strategies. Groups that share a node join.
  std::vector<std::vector<int>> ties;
  std::vector<Pin> pins;
  std::optional<int64_t> memoryLimitBytes;
  /// Bytes that are always there (inputs, a workspace): counted at every moment.
  int64_t constantBytes = 0;
};

/// Sizes, ranges and signs as written above; the message names the node and both numbers.
Status check(const Problem &problem);

struct Solution {
  /// One strategy per node. Empty exactly when a.-d. alone can't be met (or the budget ended before a way was found).
  std::vector<int> choice;
  double seconds = 0;           // of `choice`; +inf when it is empty
  double lowerBoundSeconds = 0; // no choice that fits costs less; +inf when none fits and this is proven
  int64_t peakBytes = 0;        // of `choice`, over all moments
  /// `choice` meets a.-e. When false, `choice` (if any) is the one with the least peak found.
  bool feasible = false;
  /// Feasible: nothing is cheaper (seconds equals the bound up to rounding). Infeasible: nothing fits.
  bool proven = false;
  /// Only when memory is what fails: the least peak found (what `memoryLimitBytes` would have to be), and whether it is
  /// proven that less can't be had.
  int64_t leastPeakBytes = 0;
  bool leastPeakProven = false;
};

/// Objective and peak of any choice of the right length and range.
double secondsOf(const Problem &problem, const std::vector<int> &choice);
int64_t peakBytesOf(const Problem &problem, const std::vector<int> &choice);

/// Recomputes everything that `solution` says from the problem alone; the first thing that differs is the Error
/// (ExitStatus::InternalCheck).
Status verify(const Problem &problem, const Solution &solution);

} // namespace kerf
