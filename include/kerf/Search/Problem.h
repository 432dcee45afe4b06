// SPDX-License-Identifier: Apache-2.0
// The placement problem as plain data: choose one strategy for each node such that the sum of node and edge costs is
// minimal and the live memory stays within a limit at every moment.
//
// Variables: x_i, the strategy of node i. Constants: cost_i(s), the cost of strategy s of node i; cost_uv(s, t), the
// cost of an edge between nodes u and v; bytes_m(s), the bytes of memory usage m when its node takes strategy s;
// count_m(t), the number of buffers of usage m that are live at moment t.
//
//   minimize   sum_i cost_i(x_i)  +  sum_(u,v) cost_uv(x_u, x_v)                                         (objective)
//   a.  x_i in {0 .. strategies_i - 1}                     for every node i
//   b.  x_i = x_j                                          for nodes i, j in one tie
//   c.  x_i = s                                            for a pin (i, s)
//   d.  cost_i(x_i), cost_uv(x_u, x_v) < kForbidden        for every node i and edge (u, v)
//   e.  constantBytes + sum_m count_m(t) * bytes_m(x_node(m)) <= memoryLimitBytes                for every moment t
//
// Costs are integers in a unit that the problem's builder chooses: `kerf plan` uses a power of two of seconds
// (Placement::secondsPerCost), `kerf solve` whatever its file means. Where a node runs several times (a layer that is
// folded with others, microbatches), the builder has multiplied its costs already.
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

/// The cost of a strategy or of a pair of strategies, in the problem's unit: 0 to kMaxCost, or kForbidden.
using Cost = int64_t;
/// The largest cost that is allowed.
inline constexpr Cost kMaxCost = Cost(1) << 62;
/// The cost of a strategy or pair of strategies that must not be taken (constraint d).
inline constexpr Cost kForbidden = std::numeric_limits<Cost>::max();

/// A sum of costs, which is always exact: 2^32 costs of 2^62 sum to 2^94.
__extension__ typedef __int128 TotalCost;
/// More than every possible sum of costs: the total of a forbidden choice, or the bound of a
/// problem without a solution.
inline constexpr TotalCost kUnboundedTotal = TotalCost(1) << 120;

/// Returns the number in decimal, or "inf" for kUnboundedTotal and more.
std::string toString(TotalCost total);

/// One decision, between at least one strategy.
struct ProblemNode {
  std::string name;        // name of the node in messages
  std::vector<Cost> costs; // cost of each strategy of the node
};

/// An edge between two different nodes u and v: `tables[table][a * strategies(v) + b]` is the additional cost when u
/// takes strategy a and v takes strategy b. Several edges between the same two nodes, in either direction, add up.
struct ProblemEdge {
  int u = 0, v = 0; // indices in Problem::nodes
  int table = 0;    // index in Problem::tables
};

/// A half-open interval of moments: a buffer is live at `begin` and no longer at `end`.
struct LiveInterval {
  int64_t begin = 0, end = 0; // first moment at which the buffer is live, and first moment at which it is dead
};

/// Memory whose size depends on the strategy of one node. A node may own several usages (a parameter, its gradient, its
/// optimizer states). Each interval of a usage stands for one buffer of the same size (for example of a layer that is
/// called several times); buffers whose intervals overlap add up.
struct MemoryUsage {
  int node = 0;                   // index in Problem::nodes
  std::vector<LiveInterval> live; // one interval for each buffer
  std::vector<int64_t> bytes;     // bytes of one buffer under each strategy of `node`; each is 0 or more
};

/// Constraint c: `node` must take `strategy`.
struct Pin {
  int node = 0;     // index in Problem::nodes
  int strategy = 0; // index of the strategy that the node must take
};

/// A placement problem: each node takes one of its strategies, such that the sum of node and edge costs is minimal and
/// the live memory stays within a limit. The comment at the top of Problem.h has the formulas and names the
/// constraints.
struct Problem {
  std::string name;               // name of the problem in messages and files
  std::vector<ProblemNode> nodes; // the decisions
  std::vector<ProblemEdge> edges; // the costs that depend on the strategies of two nodes
  /// Cost tables of edges. Edges between nodes of repeated layers share one table (see TableSet).
  std::vector<std::vector<Cost>> tables;
  std::vector<MemoryUsage> usages; // the memory that depends on strategies
  /// Constraint b: groups of nodes that take the same strategy index. All nodes of a group have the same number of
  /// strategies. Groups with a common node act as one group.
  std::vector<std::vector<int>> ties;
  std::vector<Pin> pins;                   // nodes whose strategy is given
  std::optional<int64_t> memoryLimitBytes; // most bytes that may be live at one moment; absent: no limit
  /// Bytes that are live at every moment (inputs, a workspace).
  int64_t constantBytes = 0;

  /// Returns the number of strategies of a node.
  int strategies(int node) const { return static_cast<int>(nodes[node].costs.size()); }
  /// Returns the cost of an edge when its node u takes strategy `a` and its node v takes strategy `b`.
  Cost costOf(const ProblemEdge &edge, int a, int b) const {
    return tables[edge.table][static_cast<size_t>(a) * nodes[edge.v].costs.size() + b];
  }
};

/// Checks sizes, ranges and signs of a problem as documented at its fields, in time linear in the problem's size. The
/// error names the node or edge at fault and both numbers.
Status check(const Problem &problem);

/// The shadow price of the memory limit at one moment of the step: the cost that one more byte at `moment` would save.
struct MomentPrice {
  int64_t moment = 0;     // a moment as in LiveInterval
  double costPerByte = 0; // in the problem's unit of cost (Placement::secondsPerCost seconds for `kerf plan`) a byte
};

/// The state of a solved problem's dual, opaque to callers. A search of a similar problem
/// starts from it (SolveOptions::previous).
struct WarmStart;

/// The solver's answer to a placement problem.
struct Solution {
  /// The strategy of each node. Empty exactly when no choice meets ties, pins and forbidden costs (constraints a. to
  /// d.) even without a memory limit, or the budget ended before a choice was found.
  std::vector<int> choice;
  TotalCost cost = kUnboundedTotal; // the objective of `choice`
  TotalCost lowerBound = 0;         // no choice that meets all constraints costs less; kUnboundedTotal: none exists
  int64_t peakBytes = 0;            // the most bytes that are live at one moment under `choice`
  /// Whether `choice` meets all constraints. If false, `choice` (where there is one) is the one with the least peak
  /// found.
  bool feasible = false;
  /// Whether the search is complete. Feasible: `choice` is optimal and `cost` equals `lowerBound`. Infeasible: no
  /// choice meets all constraints.
  bool proven = false;
  /// The least peak memory found, where only the memory limit (e) cannot be met: the limit would have to be
  /// that high. Otherwise 0.
  int64_t leastPeakBytes = 0;
  bool leastPeakProven = false; // whether no choice has a lower peak than `leastPeakBytes`
  /// Shadow prices of the memory limit, in ascending order of moments. A moment that is not listed has price 0.
  std::vector<MomentPrice> prices;
  /// The state of the dual, for a warm start of a similar problem.
  std::shared_ptr<const WarmStart> warmStart;
};

/// Returns the sum of all node and edge costs of `choice`, which has one valid strategy for each node; kUnboundedTotal
/// when one of these costs is kForbidden. Ties, pins and the memory limit are not checked.
TotalCost costOf(const Problem &problem, const std::vector<int> &choice);
/// Returns the most bytes that are live at one moment under a choice (the left side of constraint e).
int64_t peakBytesOf(const Problem &problem, const std::vector<int> &choice);

/// The peak memory of a choice.
struct Peak {
  int64_t bytes = 0;             // the most bytes that are live at one moment
  std::optional<int64_t> moment; // the first moment with that many bytes; absent: only the constant bytes are live
};
/// Returns the peak memory of a choice and the moment at which it occurs.
Peak peakOf(const Problem &problem, const std::vector<int> &choice);

/// Recomputes all that `solution` states from the problem alone. Returns the first difference as
/// an error with ExitStatus::InternalCheck.
Status verify(const Problem &problem, const Solution &solution);

/// Collects cost tables so that tables of equal content are stored once.
class TableSet {
public:
  /// Adds to `tables`, which must outlive the set.
  explicit TableSet(std::vector<std::vector<Cost>> &tables) : tables(tables) {}
  /// Returns the index of a table that equals `table`; adds the table when there is none.
  int add(std::span<const Cost> table);

private:
  std::vector<std::vector<Cost>> &tables;
  std::unordered_multimap<uint64_t, int> byHash; // hash of the content -> index in `tables`
};

} // namespace kerf
