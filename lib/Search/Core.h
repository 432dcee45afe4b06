// SPDX-License-Identifier: Apache-2.0
// The problem as the solver sees it: variables (merged ties) with labels (strategies that are left), one table between
// two variables, and memory rows. Private to Search.
//
//   minimize  constant + sum_i costs_i(x_i) + sum_(u,v) table_uv(x_u, x_v)
//   such that in every row r:  sum of the bytes of the usages that cover r  <=  slack_r
//
// All costs are +inf or a whole number of quanta, few enough that any sum of them is exact in a double.
#pragma once

#include "kerf/Search/Problem.h"
#include <limits>

namespace kerf::search {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Labels = std::vector<int>;

/// Bytes over the rows [firstRow, endRow), per label.
struct CoreUsage {
  int firstRow = 0, endRow = 0;
  std::vector<int64_t> bytes;
};

/// costs[a * labels(v) + b]. What a dual moved from the table to the labels of its ends is kept for the next one to
/// start from: no choice costs anything else for it. Empty: nothing.
struct CoreTable {
  int u = 0, v = 0;
  std::vector<double> costs;
  std::vector<double> toU = {}, toV = {};
};

struct Core {
  double constant = 0;
  double quantum = 1;                     // a power of two
  std::vector<std::vector<double>> costs; // [variable][label]
  std::vector<CoreTable> tables;
  std::vector<std::vector<int>> tablesOf;     // [variable]
  std::vector<std::vector<CoreUsage>> usages; // [variable]
  std::vector<int64_t> slack;                 // [row]
  std::vector<int64_t> moment;                // [row]: a moment of the problem, ascending
  /// Nothing satisfies it.
  bool contradictory = false;

  int size() const { return static_cast<int>(costs.size()); }
  int labels(int variable) const { return static_cast<int>(costs[variable].size()); }
  int64_t allLabels() const;
  int64_t cells() const;
};

/// A sum of magnitudes that no sum of the core's numbers exceeds, of the finite ones.
double largestSum(const Core &core);

double costOf(const Core &core, const Labels &labels);

struct Built {
  Core core;
  std::vector<int> variableOf; // [node]
  TotalCost offset = 0;        // a choice costs offset + the core's cost, at least
  /// The core's cost is the exact cost: no rounding was needed.
  bool exact = true;
  /// Costs that are greater than all the others together were left out: an answer without them beats every answer with
  /// one.
  bool hugeLeftOut = false;
  Cost leastHuge = kMaxCost; // of those left out
};

/// Ties merged, parallel edges added up, pins and forbidden strategies taken out, moments reduced to those whose live
/// sets no other's contains (as far as neighbours in time tell). `leaveOutHuge` as in Built. What costs more than
/// `mostAboveLeast` above the least of its node or edge is left out too: where a choice is known, what is dearer by so
/// much can't be part of a better one.
Built buildCore(const Problem &problem, bool leaveOutHuge, TotalCost mostAboveLeast = kUnboundedTotal);

} // namespace kerf::search
