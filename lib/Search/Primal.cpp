// SPDX-License-Identifier: Apache-2.0
#include "Primal.h"
#include "Tuning.h"
#include <algorithm>
#include <deque>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

/// The variables that wait to be looked at, each at most once.
class Queue {
public:
  explicit Queue(int count) : queued(count, 0) {}
  void push(int variable) {
    if (!queued[variable])
      queued[variable] = 1, waiting.push_back(variable);
  }
  bool empty() const { return waiting.empty(); }
  int pop() {
    int variable = waiting.front();
    waiting.pop_front();
    queued[variable] = 0;
    return variable;
  }
  void pushNeighbours(const Core &core, int variable) {
    for (int t : core.tablesOf[variable])
      push(core.tables[t].u == variable ? core.tables[t].v : core.tables[t].u);
  }

private:
  std::vector<char> queued;
  std::deque<int> waiting;
};

/// Makes the most profitable change of one variable that the memory constraint R allows. Returns whether there was one.
bool moveOne(LocalSearchState &state, int variable) {
  std::vector<std::pair<double, int>> better;
  for (int s = 0; s < state.core.labels(variable); ++s)
    if (double gain = state.gain(variable, s); gain > 0)
      better.push_back({-gain, s});
  std::sort(better.begin(), better.end());
  state.steps += state.core.labels(variable);
  int now = state.labels[variable];
  for (auto [_, label] : better) {
    state.set(variable, label);
    if (state.fits())
      return true;
    state.set(variable, now);
  }
  return false;
}

/// Makes the most profitable change of both variables of a table that the memory constraint R allows. Returns whether
/// there was one.
bool moveTwo(LocalSearchState &state, const CoreTable &table, double leastOfTable) {
  const Core &core = state.core;
  int u = table.u, v = table.v, rows = core.labels(u), columns = core.labels(v), a0 = state.labels[u],
      b0 = state.labels[v];
  auto cell = [&](int a, int b) {
    double cost = table.costs[static_cast<size_t>(a) * columns + b];
    return cost == kInfinity ? kForbiddenCost : cost;
  };
  double now = state.local(u, a0) + state.local(v, b0) - cell(a0, b0);
  state.steps += rows + columns;
  std::vector<double> ofU(rows), ofV(columns);
  for (int a = 0; a < rows; ++a)
    ofU[a] = state.local(u, a) - cell(a, b0);
  for (int b = 0; b < columns; ++b)
    ofV[b] = state.local(v, b) - cell(a0, b);
  double leastV = *std::min_element(ofV.begin(), ofV.end());
  if (*std::min_element(ofU.begin(), ofU.end()) + leastV + leastOfTable >= now)
    return false;
  struct Option {
    double cost;
    int a, b;
    auto operator<=>(const Option &) const = default;
  };
  std::vector<Option> better;
  for (int a = 0; a < rows; ++a) {
    if (ofU[a] + leastV + leastOfTable >= now)
      continue;
    state.steps += columns;
    for (int b = 0; b < columns; ++b)
      if (double cost = ofU[a] + ofV[b] + cell(a, b); cost < now)
        better.push_back({cost, a, b});
  }
  size_t tried = std::min<size_t>(better.size(), primal::kPairsTried);
  std::partial_sort(better.begin(), better.begin() + tried, better.end());
  for (size_t k = 0; k < tried; ++k) {
    state.set(u, better[k].a), state.set(v, better[k].b);
    if (state.fits())
      return true;
    state.set(v, b0), state.set(u, a0);
  }
  return false;
}

} // namespace

std::vector<std::vector<double>> kerf::search::pricesOfLabels(const Core &core, const std::vector<double> &prices) {
  std::vector<double> sum(prices.size() + 1, 0.0);
  for (size_t r = 0; r < prices.size(); ++r)
    sum[r + 1] = sum[r] + prices[r];
  std::vector<std::vector<double>> priced(core.size());
  for (int i = 0; i < core.size(); ++i) {
    priced[i].assign(core.costs[i].size(), 0.0);
    for (const CoreUsage &usage : core.usages[i]) {
      double price = sum[usage.endRow] - sum[usage.firstRow];
      for (size_t s = 0; s < priced[i].size(); ++s)
        priced[i][s] += price * static_cast<double>(usage.bytes[s]);
    }
  }
  return priced;
}

void kerf::search::descendPriced(LocalSearchState &state, const std::vector<std::vector<double>> &priced) {
  const Core &core = state.core;
  Queue queue(core.size());
  for (int i = 0; i < core.size(); ++i)
    queue.push(i);
  for (int64_t left = 20LL * core.size(); left > 0 && !queue.empty(); --left) {
    int i = queue.pop(), now = state.labels[i], best = now;
    double least = state.local(i, now) + priced[i][now];
    state.steps += core.labels(i);
    least -= 1e-9 * std::abs(least); // a gain within rounding errors could repeat endlessly
    for (int s = 0; s < core.labels(i); ++s)
      if (double cost = state.local(i, s) + priced[i][s]; cost < least)
        least = cost, best = s;
    if (best == now)
      continue;
    state.set(i, best);
    queue.pushNeighbours(core, i);
  }
}

void kerf::search::descend(LocalSearchState &state) {
  const Core &core = state.core;
  std::vector<double> leastOfTable;
  for (const CoreTable &table : core.tables)
    leastOfTable.push_back(*std::min_element(table.costs.begin(), table.costs.end()));
  Queue ones(core.size()), twos(core.size());
  // Variables with the largest gain come first, since they compete for the remaining memory.
  std::vector<std::pair<double, int>> order;
  for (int i = 0; i < core.size(); ++i) {
    double most = 0;
    for (int s = 0; s < core.labels(i); ++s)
      most = std::max(most, state.gain(i, s));
    order.push_back({-most, i});
  }
  std::sort(order.begin(), order.end());
  for (auto [_, i] : order)
    ones.push(i), twos.push(i);
  auto changed = [&](int variable) {
    for (Queue *queue : {&ones, &twos})
      queue->push(variable), queue->pushNeighbours(core, variable);
  };
  for (int64_t left = 40LL * core.size(); left > 0; --left) {
    if (!ones.empty()) {
      if (int i = ones.pop(); moveOne(state, i))
        changed(i);
    } else if (!twos.empty()) {
      int i = twos.pop();
      for (int t : core.tablesOf[i])
        if (moveTwo(state, core.tables[t], leastOfTable[t]))
          changed(core.tables[t].u), changed(core.tables[t].v);
    } else {
      return;
    }
  }
}

double kerf::search::leastRowCost(const LocalSearchState &state, const std::vector<double> &prices) {
  return primal::kLeastRowShare *
         std::max(costOfSlack(state.core, prices), primal::kLeastSlackShare * std::abs(state.cost) + 1);
}

bool kerf::search::repair(LocalSearchState &state, std::vector<double> prices) {
  const Core &core = state.core;
  int64_t usageEntries = core.usageEntries();
  for (int round = 0; round < primal::kRepairRounds && !(state.fits() && state.allowed()); ++round) {
    std::vector<int64_t> over = state.loads.all();
    double least = leastRowCost(state, prices);
    for (size_t r = 0; r < prices.size(); ++r)
      if (over[r] > 0) {
        double share = std::min(1.0, static_cast<double>(over[r]) / core.positiveSlack(r));
        prices[r] =
            std::max(prices[r] * (1 + primal::kLeastRise + primal::kRise * share), least / core.positiveSlack(r));
      }
    state.steps += core.allLabels() + usageEntries + static_cast<int64_t>(prices.size());
    descendPriced(state, pricesOfLabels(core, prices));
  }
  return state.fits() && state.allowed();
}
