// SPDX-License-Identifier: Apache-2.0
// A lower bound of a core (Core.h) by Lagrangian relaxation. Private to the Search room.
//
// A price p_r >= 0, in cost units per byte, relaxes the memory constraint R of row r. The Lagrangian dual function
//
//   L(p) = min_x [ cost(x) + sum_r p_r * (bytes_r(x) - slack_r) ]   <=   the optimum, for every p >= 0
//
// is itself bounded from below by tree-reweighted message passing (TRW-S: Kolmogorov 2006): messages move costs from
// the tables to the labels of their variables without changing the cost of any choice, and the sum of the least
// entries that remain is the bound. Variables outside of all cycles are eliminated exactly before each pass.
//
// Every number that is added or subtracted is a multiple of the core's quantum below 2^52 quanta, so sums are exact;
// products are rounded down. The bound is therefore valid in floating point, without a tolerance.
#pragma once

#include "Core.h"

namespace kerf::search {

/// The messages of one core, and the bound and reduced costs that they prove.
class Dual {
public:
  /// Starts from the messages in the core's tables. `core` must outlive the object.
  explicit Dual(const Core &core);

  /// Sends messages once forward and once backward over all variables under `prices` (cost units per byte, one for
  /// each row). Returns the lower bound of the core objective that the messages prove.
  double pass(const std::vector<double> &prices);
  /// Returns the number of table entries that one pass reads.
  int64_t workPerPass() const { return work; }

  /// Returns the expected bytes of every row when each variable chooses at random among the labels that cost at most
  /// `width` (cost units) more than its best label, with more weight on cheaper ones. Expected bytes minus slack
  /// approximate the gradient of L with respect to the prices.
  std::vector<double> expectedBytes(double width) const;

  /// Returns a choice of labels: variable after variable takes its cheapest label, given the labels of the variables
  /// before and the messages of those after. The choice may violate the memory constraint R.
  Labels round() const;

  /// Returns the reduced costs, indexed by [variable][label]: taking the label raises the bound of the last pass by at
  /// least that many cost units.
  std::vector<std::vector<double>> reducedCosts() const;

  /// Returns the share of all labels, from 0 to 1, whose reduced cost exceeds `gap` cost units.
  double prunableShare(double gap) const;

  /// Returns the core with the messages so far in its tables. Labels and pairs of labels that raise the bound of the
  /// last pass by more than `gap` cost units are forbidden in it.
  Core prune(double gap) const;

private:
  /// One table as it is read from variable `from` to variable `to`.
  struct DirectedTable {
    int table = 0, from = 0, to = 0;
    size_t costs = 0;              // offset in `cells` of the entries [label of from * labels(to) + label of to]
    size_t message = 0, reply = 0; // offsets in `messages` of the message to `to` and of the message to `from`
  };
  /// Costs that messages leave in a table, indexed by [label of from * labels(to) + label of to]; all are >= 0.
  struct ResidualTable {
    int from = 0, to = 0;
    std::vector<double> costs;
  };

  /// Takes over an earlier dual's message to variable `to`, where its entries keep sums exact.
  void startMessage(const std::vector<double> &moved, size_t message, int to);
  /// Sets `priced` to the costs of all labels plus the price of their bytes.
  void priceLabels(const std::vector<double> &prices);
  /// Eliminates the variables outside of cycles, leaves first. Returns their part of the bound, in cost units.
  double sweepTrees();
  /// Updates the messages of the variables on cycles, in ascending or descending order. Returns their part of the
  /// bound, in cost units.
  double sweep(bool forward);
  /// Replaces the message along `side`, given the costs `own` of the sender's labels. Returns the cost units that the
  /// message moves into the bound.
  double updateMessage(const DirectedTable &side, const double *own);
  /// Returns the residual costs of all tables after the last pass, indexed as Core::tables.
  std::vector<ResidualTable> residualTables() const;
  /// Returns the residual costs of a variable's labels after the last pass.
  std::vector<double> residualCosts(int variable) const;
  /// Sets `sum` to the costs of a variable's labels plus all messages to the variable.
  void belief(int variable, std::vector<double> &sum) const;
  /// Returns `value` rounded down to a multiple of the quantum (at most one quantum too low).
  double roundDown(double value) const { return (value - core.quantum / 2 + roundingShift) - roundingShift; }

  const Core &core;
  double roundingShift = 0;                // a number so large that adding it rounds to whole quanta
  int64_t work = 0;                        // table entries that one pass reads
  std::vector<double> cells, messages;     // entries of all directed tables, and of all messages
  std::vector<std::vector<double>> priced; // [variable][label]: cost, price of bytes, and messages of eliminated trees
  double slackCost = 0;                    // sum of price times slack over the rows, rounded up
  std::vector<int> treeVariables;          // variables outside of all cycles, each before its parent
  std::vector<int> parentTable;            // [variable]: index in `directed` of the table to its parent; -1: none
  std::vector<int> cycleVariables;         // all other variables, ascending
  std::vector<DirectedTable> directed;
  std::vector<std::vector<int>> before, after; // [variable]: directed tables to lower and to higher variables
  std::vector<double> share;                   // [variable]: part of its costs that it gives to each message
  std::vector<double> messageCap;              // [variable]: largest entry of a message to it
  std::vector<double> own;                     // scratch: costs of the sender's labels
};

} // namespace kerf::search
