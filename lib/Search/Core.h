// SPDX-License-Identifier: Apache-2.0
// The placement problem (kerf/Search/Problem.h) in the form that the solver works on. Private to the Search room.
//
// A variable i stands for one group of tied nodes; its labels are the strategies that are still possible. A table
// holds the costs between two variables. A row r stands for a moment at which memory can bind.
//
//   minimize   constant + sum_i costs_i(x_i) + sum_(u,v) table_uv(x_u, x_v)            (core objective)
//   R.  sum of the bytes of the usages that cover row r  <=  slack_r                   for every row r
//
// Every cost is +infinity (forbidden) or a multiple of the quantum. The multiples are small enough that every sum of
// costs is exact in a double.
#pragma once

#include "kerf/Search/Problem.h"
#include <algorithm>
#include <limits>

namespace kerf::search {

/// The cost of a forbidden label or pair of labels, and the bound of a problem without a solution.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A choice: the label of each variable of a core, indexed by variable.
using Labels = std::vector<int>;

/// Bytes that one variable occupies in the consecutive rows [firstRow, endRow), indexed by the variable's label.
struct CoreUsage {
  int firstRow = 0, endRow = 0;
  std::vector<int64_t> bytes;
};

/// Costs between two variables u and v: `costs[a * labels(v) + b]` is paid when u has label a and v has label b.
/// `messagesToU` and `messagesToV` are the costs that an earlier dual (Dual.h) moved from the table to the labels of u
/// and of v. They only give the next dual a starting point: they change the cost of no choice. Empty: no messages.
struct CoreTable {
  int u = 0, v = 0;
  std::vector<double> costs;
  std::vector<double> messagesToU = {}, messagesToV = {};
};

/// The problem of this file's head as data.
struct Core {
  double constant = 0;                        // cost units that every choice pays
  double quantum = 1;                         // the power of two of which all costs are multiples
  std::vector<std::vector<double>> costs;     // cost of a label, indexed by [variable][label]
  std::vector<CoreTable> tables;              // at most one for each pair of variables
  std::vector<std::vector<int>> tablesOf;     // indices in `tables` of a variable's tables, indexed by [variable]
  std::vector<std::vector<CoreUsage>> usages; // memory of a variable, indexed by [variable]
  std::vector<int64_t> slack;                 // bytes that the usages may take in a row, indexed by [row]
  std::vector<int64_t> moment;                // the problem's moment that a row stands for, ascending, by [row]
  bool infeasible = false;                    // whether it is known that no choice satisfies all constraints

  /// Returns the number of variables.
  int size() const { return static_cast<int>(costs.size()); }
  /// Returns the number of labels of one variable.
  int labels(int variable) const { return static_cast<int>(costs[variable].size()); }
  /// Returns the bytes that the usages may take in a row, but at least 1, for ratios of bytes.
  double positiveSlack(size_t row) const { return std::max(1.0, static_cast<double>(slack[row])); }
  /// Returns the number of labels of all variables together.
  int64_t allLabels() const;
  /// Returns the number of bytes that the usages state, one for each label of each usage.
  int64_t usageEntries() const;
  /// Returns the number of entries of all tables together.
  int64_t cells() const;
};

/// Returns an upper bound, in cost units, of the absolute value of every finite sum of costs of the core.
double largestSum(const Core &core);

/// Returns the cost of the slack of all rows, in cost units. `prices` is in cost units per byte, one for each row.
double costOfSlack(const Core &core, const std::vector<double> &prices);

/// Returns the core objective of a choice of labels; +infinity when the choice takes a forbidden label or pair.
double costOf(const Core &core, const Labels &labels);

/// A core together with the relation between its choices and the choices of the problem that it was built from.
struct BuiltCore {
  Core core;
  std::vector<int> variableOf; // the core's variable for a node of the problem, indexed by [node]
  TotalCost offset = 0;        // the problem's cost of a choice is at least `offset` + the core's cost
  bool exact = true;           // whether that "at least" is an equality: no cost had to be rounded down
  /// Whether costs greater than the sum of all smaller ones were forbidden in the core. A choice without such a cost
  /// is cheaper than every choice with one, so this matters only while no choice is known.
  bool hugeLeftOut = false;
  Cost leastHuge = kMaxCost; // the least of the costs that were forbidden for their size
};

/// Builds the core of a problem. Tied nodes become one variable and parallel edges one table; pins and forbidden
/// strategies become infinite costs; moments become rows, without those whose live buffers are a subset of a
/// neighbouring moment's. `leaveOutHuge` says whether huge costs are forbidden (BuiltCore::hugeLeftOut). A cost that
/// exceeds the least cost of its node or edge by more than `mostAboveLeast` is forbidden too: once a choice is known
/// whose cost is `mostAboveLeast` above the offset, no better choice contains such a cost.
BuiltCore buildCore(const Problem &problem, bool leaveOutHuge, TotalCost mostAboveLeast = kUnboundedTotal);

} // namespace kerf::search
