// SPDX-License-Identifier: Apache-2.0
#include "LocalMoves.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::search;

namespace {

/// A row is a cache miss, a step of the budget a cell of a table: measured on the folded step of a 32-layer model, about eight to one.
constexpr int64_t kStepsPerRow = 8;

/// A full choice with its row sums.
struct State {
  const Network &network;
  Labels &labels;
  int64_t &steps;
  std::vector<int64_t> extra = extraBytesOf(network, labels);

  double secondsAround(int variable, int label) const {
    double seconds = network.unary[variable][label];
    for (int p : network.pairsOf[variable]) {
      const PairTable &pair = network.pairs[p];
      int columns = network.labels(pair.v);
      seconds += pair.u == variable ? pair.seconds[label * columns + labels[pair.v]]
                                    : pair.seconds[labels[pair.u] * columns + label];
    }
    steps -= static_cast<int64_t>(network.pairsOf[variable].size()) + 1;
    return seconds;
  }
  int64_t overflow(int row) const { return std::max<int64_t>(0, extra[row] - network.slack(row)); }

  /// By how much the overflow of all rows together falls when `variable` takes `label`.
  double relief(int variable, int label) const {
    double relief = 0;
    steps -= kStepsPerRow * static_cast<int64_t>(network.rowsOf[variable].size());
    for (const RowPlace &place : network.rowsOf[variable]) {
      const std::vector<int64_t> &bytes = network.rows[place.row].terms[place.term].extraBytes;
      int64_t after = extra[place.row] + bytes[label] - bytes[labels[variable]];
      relief += static_cast<double>(overflow(place.row) - std::max<int64_t>(0, after - network.slack(place.row)));
    }
    return relief;
  }
  void take(int variable, int label) {
    for (const RowPlace &place : network.rowsOf[variable]) {
      const std::vector<int64_t> &bytes = network.rows[place.row].terms[place.term].extraBytes;
      extra[place.row] += bytes[label] - bytes[labels[variable]];
    }
    labels[variable] = label;
  }
};

} // namespace

bool kerf::search::repair(const Network &network, Labels &labels, int64_t &steps) {
  State state{network, labels, steps};
  while (steps > 0) {
    std::vector<char> involved(network.size(), 0);
    bool violated = false;
    for (size_t r = 0; r < network.rows.size(); ++r)
      if (state.overflow(static_cast<int>(r)) > 0) {
        violated = true;
        for (const RowTerm &term : network.rows[r].terms)
          involved[term.variable] = 1;
      }
    if (!violated)
      return true;
    int bestVariable = -1, bestLabel = -1;
    double bestPrice = std::numeric_limits<double>::infinity();
    for (int i = 0; i < network.size(); ++i) {
      if (!involved[i])
        continue;
      double now = state.secondsAround(i, labels[i]);
      for (int s = 0; s < network.labels(i); ++s) {
        double relief = s == labels[i] ? 0 : state.relief(i, s);
        if (relief <= 0)
          continue;
        double price = (state.secondsAround(i, s) - now) / relief;
        if (price < bestPrice)
          bestPrice = price, bestVariable = i, bestLabel = s;
      }
    }
    if (bestVariable < 0)
      return false;
    state.take(bestVariable, bestLabel);
  }
  return false;
}

void kerf::search::descend(const Network &network, Labels &labels, int64_t &steps) {
  State state{network, labels, steps};
  bool changed = true;
  while (changed && steps > 0) {
    changed = false;
    for (int i = 0; i < network.size() && steps > 0; ++i) {
      double now = state.secondsAround(i, labels[i]);
      for (int s = 0; s < network.labels(i); ++s) {
        if (s == labels[i])
          continue;
        double then = state.secondsAround(i, s);
        if (then >= now - std::abs(now) * 1e-12 || state.relief(i, s) < 0)
          continue;
        state.take(i, s);
        now = then, changed = true;
      }
    }
  }
}
