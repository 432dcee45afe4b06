// SPDX-License-Identifier: Apache-2.0
// The problem as the solver sees it: variables (merged ties) with labels (strategies that are left), at most one table
// between two variables, and one memory row per moment that could exceed the limit. Private to Search.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf::search {

/// u < v; cell [a * labels(v) + b].
struct PairTable {
  int u = 0, v = 0;
  std::vector<double> seconds;
};

/// Bytes of a variable at one moment, above what its smallest label takes.
struct RowTerm {
  int variable = 0;
  std::vector<int64_t> extraBytes;
};

/// One moment: floorBytes + sum of the extra bytes <= limit. Only terms that depend on the label.
struct Row {
  int64_t floorBytes = 0;
  std::vector<RowTerm> terms;
  int parentRow = -1; // in the network that this one was made from
};

struct RowPlace {
  int row = 0, term = 0;
};

struct Network {
  double constantSeconds = 0;
  std::vector<std::vector<double>> unary; // [variable][label], finite
  std::vector<PairTable> pairs;
  std::vector<std::vector<int>> pairsOf; // [variable] -> pairs
  std::vector<Row> rows;
  std::vector<std::vector<RowPlace>> rowsOf; // [variable] -> its terms
  int64_t limitBytes = 0;
  /// How it was made from its parent: the parent's variable and, per label, the parent's label; and the labels of the
  /// parent's variables that have no choice left (-1 for the others).
  std::vector<int> parentVariable;
  std::vector<std::vector<int>> parentLabel;
  std::vector<int> fixedLabel;
  /// Some variable has no label left: nothing satisfies the problem.
  bool contradictory = false;

  int size() const { return static_cast<int>(unary.size()); }
  int labels(int variable) const { return static_cast<int>(unary[variable].size()); }
  int64_t slack(int row) const { return limitBytes - rows[row].floorBytes; }
  bool memoryFree(int variable) const { return rowsOf[variable].empty(); }
};

using Labels = std::vector<int>;
using KeepMask = std::vector<std::vector<char>>; // [variable][label]

/// Ties merged, parallel edges added up, pins and forbidden strategies taken out, moments reduced to maximal live sets.
/// `variableOf[node]`.
Network buildNetwork(const Problem &problem, std::vector<int> &variableOf);

/// The network of the labels that `keep` leaves; variables with one label are folded into their neighbours, rows that
/// can no longer exceed the limit are dropped.
Network restrictTo(const Network &parent, const KeepMask &keep);
/// A choice for the parent from a choice for the restricted one.
Labels expand(const Network &network, const Labels &labels);

/// Takes out labels that can't be part of any answer (a forbidden pair with every label of a neighbour), and labels
/// that another one beats whatever the neighbours do, in seconds and in bytes of every row: at least one optimum is
/// kept. `steps` is counted down by the work.
Network removeDominated(const Network &network, int64_t &steps);

double secondsOf(const Network &network, const Labels &labels);
/// Extra bytes of every row.
std::vector<int64_t> extraBytesOf(const Network &network, const Labels &labels);
bool fits(const Network &network, const Labels &labels);
/// Largest floor + extra bytes of any row.
int64_t peakBytesOf(const Network &network, const Labels &labels);

} // namespace kerf::search
