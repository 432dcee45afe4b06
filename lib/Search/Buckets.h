// SPDX-License-Identifier: Apache-2.0
// Variable elimination with a bound on table size ("mini-bucket elimination", Dechter & Rish 2003). Private to Search.
//
// Variables are eliminated one by one; a variable's bucket holds every table that mentions it and no variable
// eliminated before. Its message is  min over the variable of the sum of the bucket, a table over the other variables.
// Where that table would exceed the limit the bucket is split: the sum of the parts' minima is a lower bound, made
// tighter by first shifting the parts so that they agree on their min-marginals of the variable (Ihler et al. 2012,
// "moment matching"). With no split bucket the bound is the exact minimum.
//
// Read backwards, from the last eliminated variable to the first, the buckets are an admissible heuristic: given labels
// of all later variables, `bucketSum - messages` is by how much each label of the next one raises the bound.
#pragma once

#include "Network.h"

namespace kerf::search {

class Buckets {
public:
  /// Plans order and splits for `network`, which must outlive this.
  Buckets(const Network &network, int64_t cellLimit);

  /// Cells computed by one `run`.
  int64_t workPerRun() const { return work; }
  int64_t totalCells() const { return cells; }

  /// Eliminates with these node seconds in place of the network's; the lower bound (without network.constantSeconds).
  /// `forbiddenOnly`: pair tables count 0 where they are finite.
  enum class PairSeconds { Counted, ForbiddenOnly };
  double run(const std::vector<std::vector<double>> &unary, PairSeconds pairSeconds);

  /// order()[k] is eliminated k-th.
  const std::vector<int> &order() const { return sequence; }
  /// True when the buckets of the first `k` eliminated variables are all unsplit.
  bool exactBelow(int k) const { return k <= firstSplit; }
  /// By how much each label of order()[k] raises the bound, given the labels of order()[k+1 ...]. Adds to `raise`.
  void raiseOf(int k, const Labels &labels, std::vector<double> &raise) const;
  int64_t raiseWork(int k) const;
  /// The best labels of order()[0 .. count-1] given those of the rest, one at a time; exact where buckets are unsplit.
  void decode(int count, Labels &labels) const;

private:
  struct Table {
    std::vector<int> scope;      // latest eliminated first; the bucket's variable is last, with stride 1
    std::vector<int64_t> stride; // as scope
    std::vector<double> cells;
    int64_t size = 1;
    int pair = -1; // original table, or -1: a message or unary
  };
  struct Part {
    std::vector<int> tables; // all mention the bucket's variable
    int message = -1;        // -1: the message has no variables, it is part of the bound
    std::vector<int> scope;  // of the message
    double constant = 0;     // what it adds to the bound when message is -1
  };
  struct Bucket {
    std::vector<Part> parts;
  };

  void planOrder(int64_t cellLimit);
  int addTable(std::vector<int> scope, int pair);
  void fillPair(Table &table, PairSeconds pairSeconds) const;
  template <typename Visit> void forEachCell(int variable, const Part &part, Visit visit) const;
  double runBucket(int k);
  int64_t offset(const Table &table, const Labels &labels) const;

  const Network &network;
  std::vector<int> sequence, positionOf;
  std::vector<Table> tables;
  std::vector<int> unaryTable; // [variable]
  std::vector<Bucket> buckets; // [k]
  int64_t work = 0, cells = 0;
  int firstSplit = 0; // the first k whose bucket is split
};

} // namespace kerf::search
