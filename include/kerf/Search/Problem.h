// SPDX-License-Identifier: Apache-2.0
// The placement problem as plain data, in whole numbers: one strategy per node, least cost, memory under a limit at
// every moment.
//
//   minimize   sum_i cost_i(x_i)  +  sum_(u,v) cost_uv(x_u, x_v)                                         (objective)
//   a.  x_i in {0 .. strategies_i - 1}
//   b.  x_i = x_j                                          for i, j in one tie
//   c.  x_i = s                                            for a pin (i, s)
//   d.  cost_i(x_i), cost_uv(x_u, x_v) < kForbidden
//   e.  sum over usages u live at t, count_u(t) * bytes_u(x_node(u)) <= memoryLimitBytes     for every moment t
//
// The unit of costs is the problem's own: in `kerf plan` a power of two of seconds (Placement::secondsPerCost), in
// `kerf solve` whatever the file means. How often a node runs (a folded layer, a microbatch) is already multiplied into
// its costs by who builds the problem.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace kerf {

/// 0 .. kMaxCost, or kForbidden: a strategy or a pair that must not be taken.
using Cost = int64_t;
inline constexpr Cost kMaxCost = Cost(1) << 62;
inline constexpr Cost kForbidden = std::numeric_limits<Cost>::max();

/// Sums of costs, always exact: 2^32 costs of 2^62 make 2^94.
__extension__ typedef __int128 TotalCost;
/// More than any sum of costs: the total of what is forbidden, or of an answer that does not exist.
inline constexpr TotalCost kUnboundedTotal = TotalCost(1) << 120;

/// The number, or "inf".
std::string toString(TotalCost total);

/// One decision. At least one strategy.
struct ProblemNode {
  std::string name; // for messages
  std::vector<Cost> costs;
};

/// `tables[table][a * strategies(v) + b]` is what u in a and v in b cost together. u != v; several edges between a pair
/// add up, in either direction.
struct ProblemEdge {
  int u = 0, v = 0;
  int table = 0;
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
  std::string name;
  std::vector<ProblemNode> nodes;
  std::vector<ProblemEdge> edges;
  /// What edges cost. Edges of alike layers share one: see TableSet.
  std::vector<std::vector<Cost>> tables;
  std::vector<MemoryUsage> usages;
  /// Groups of nodes that take the same strategy index; all of one number of strategies. Groups that share a node join.
  std::vector<std::vector<int>> ties;
  std::vector<Pin> pins;
  std::optional<int64_t> memoryLimitBytes;
  /// Bytes that are always there (inputs, a workspace): counted at every moment.
  int64_t constantBytes = 0;

  int strategies(int node) const { return static_cast<int>(nodes[node].costs.size()); }
  Cost costOf(const ProblemEdge &edge, int a, int b) const {
    return tables[edge.table][static_cast<size_t>(a) * nodes[edge.v].costs.size() + b];
  }
};

/// Sizes, ranges and signs as written above, in time linear in the problem's size; the message names the node and both
/// numbers.
Status check(const Problem &problem);

/// What one byte more at a moment would save, in cost units: a shadow price of the limit.
struct MomentPrice {
  int64_t moment = 0;
  double costPerByte = 0;
};

/// Opaque: the dual of a solved problem.
struct SearchMemory;

struct Solution {
  /// One strategy per node. Empty exactly when a.-d. alone can't be met (or the budget ended before a way was found).
  std::vector<int> choice;
  TotalCost cost = kUnboundedTotal; // of `choice`
  TotalCost lowerBound = 0;         // no choice that fits costs less; kUnboundedTotal when none fits and this is proven
  int64_t peakBytes = 0;            // of `choice`, over all moments
  /// `choice` meets a.-e. When false, `choice` (if any) is the one with the least peak found.
  bool feasible = false;
  /// Feasible: nothing is cheaper (cost equals the bound). Infeasible: nothing fits.
  bool proven = false;
  /// Only when memory is what fails: the least peak found (what `memoryLimitBytes` would have to be), and whether it is
  /// proven that less can't be had.
  int64_t leastPeakBytes = 0;
  bool leastPeakProven = false;
  /// Moments in ascending order; those not named have no price.
  std::vector<MomentPrice> prices;
  /// What the search found out besides; SolveOptions::after takes it up again.
  std::shared_ptr<const SearchMemory> memory;
};

/// Objective and peak of any choice of the right length and range. kUnboundedTotal when something forbidden is taken.
TotalCost costOf(const Problem &problem, const std::vector<int> &choice);
int64_t peakBytesOf(const Problem &problem, const std::vector<int> &choice);

struct Peak {
  int64_t bytes = 0;
  std::optional<int64_t> moment; // the first of that many bytes; none when the constant bytes are all there is
};
Peak peakOf(const Problem &problem, const std::vector<int> &choice);

/// Recomputes everything that `solution` says from the problem alone; the first thing that differs is the Error
/// (ExitStatus::InternalCheck).
Status verify(const Problem &problem, const Solution &solution);

/// Collects tables, each content once.
class TableSet {
public:
  explicit TableSet(std::vector<std::vector<Cost>> &tables) : tables(tables) {}
  /// The index of a table that equals `table`, which is added when there is none.
  int add(std::span<const Cost> table);

private:
  std::vector<std::vector<Cost>> &tables;
  std::unordered_multimap<uint64_t, int> byHash;
};

} // namespace kerf
