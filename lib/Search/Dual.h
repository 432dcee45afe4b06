// SPDX-License-Identifier: Apache-2.0
// A lower bound of a core by moving costs between tables and variables (TRW-S: Kolmogorov 2006) under prices of the
// memory rows. Private to Search.
//
//   L(price) = min_x [ cost(x) + sum_r price_r * (bytes_r(x) - slack_r) ]  <=  the optimum, for every price >= 0
//
// All that is added or subtracted is a whole number of quanta (a power of two) below 2^52 of them, so that sums are
// exact; what is multiplied is rounded down. The bound is valid as it stands.
#pragma once

#include "Core.h"

namespace kerf::search {

class Dual {
public:
  /// `core` must outlive this.
  explicit Dual(const Core &core);

  /// One pass forward and one back under these prices (one per row); the bound, with the constant.
  double pass(const std::vector<double> &prices);
  /// Table cells that one pass looks at.
  int64_t workPerPass() const { return work; }

  /// Bytes of every row in expectation, where every variable spreads over the labels that cost at most `width` more
  /// than its best.
  std::vector<double> expectedBytes(double width) const;

  /// One label after the other, by what the messages say of those still to come.
  Labels round() const;

  /// By how much each label raises the bound of the last pass at least.
  std::vector<std::vector<double>> reducedCosts() const;

  /// The share of the labels that raise it by more than `gap`.
  double hopelessShare(double gap) const;

  /// The core with what was moved so far, where labels and pairs of labels that raise the bound of the last pass by
  /// more than `gap` are infinite.
  Core prune(double gap) const;

private:
  struct Side { // of a table: from one end to the other
    int table = 0, from = 0, to = 0;
    size_t costs = 0;              // [label of from * labels(to) + label of to], in `cells`
    size_t message = 0, reply = 0; // offsets in `messages`: to `to`, and from it
  };

  void start(const std::vector<double> &moved, size_t message, int to);
  void priceLabels(const std::vector<double> &prices);
  double sendUp();
  double sweep(bool forward);
  double send(const Side &side, const double *own);
  struct Rest { // what the bound leaves of a table, [label of from][label of to], all >= 0
    int from = 0, to = 0;
    std::vector<double> costs;
  };
  std::vector<Rest> rests() const;
  std::vector<double> restOf(int variable) const;
  void belief(int variable, std::vector<double> &sum) const;
  double down(double value) const { return (value - core.quantum / 2 + magic) - magic; }

  const Core &core;
  double magic = 0;
  int64_t work = 0;
  std::vector<double> cells, messages;
  std::vector<std::vector<double>> priced; // [variable]: cost, price of bytes, and what hanging trees told
  double priceOfSlack = 0;
  std::vector<int> hanging; // variables of trees that hang on the middle, leaves first
  std::vector<int> upSide;  // [variable]: the side towards the middle, -1
  std::vector<int> middle;  // the others
  std::vector<Side> sides;
  std::vector<std::vector<int>> before, after; // [variable of the middle]: sides to lower and to higher variables
  std::vector<double> share, cap;
  std::vector<double> own, fresh;
};

} // namespace kerf::search
