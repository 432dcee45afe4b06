// SPDX-License-Identifier: Apache-2.0
#include "Neighbourhoods.h"
#include "Primal.h"
#include "Reduce.h"
#include "Tuning.h"
#include <algorithm>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

/// Returns the core of the free variables, with all other variables fixed to their labels in `state`.
Core fixOthers(const LocalSearchState &state, const std::vector<int> &free) {
  const Core &core = state.core;
  Core part;
  part.quantum = core.quantum;
  part.moment = core.moment;
  std::vector<int> index(core.size(), -1);
  for (size_t k = 0; k < free.size(); ++k)
    index[free[k]] = static_cast<int>(k);
  // The load of the fixed variables is the whole load minus that of the free ones.
  std::vector<int64_t> change(core.slack.size() + 1, 0);
  part.tablesOf.resize(free.size());
  double ofFree = 0;
  for (int variable : free) {
    part.costs.push_back(core.costs[variable]);
    part.usages.push_back(core.usages[variable]);
    ofFree += core.costs[variable][state.labels[variable]];
    for (const CoreUsage &usage : core.usages[variable]) {
      change[usage.firstRow] += usage.bytes[state.labels[variable]];
      change[usage.endRow] -= usage.bytes[state.labels[variable]];
    }
  }
  part.slack = state.loads.all();
  int64_t load = 0;
  for (size_t r = 0; r < part.slack.size(); ++r) {
    load += change[r];
    part.slack[r] = load - part.slack[r]; // slack - (load of all - load of the free)
  }
  for (size_t k = 0; k < free.size(); ++k)
    for (int t : core.tablesOf[free[k]]) {
      const CoreTable &table = core.tables[t];
      bool isU = table.u == free[k];
      int partner = isU ? table.v : table.u, columns = core.labels(table.v);
      double now = table.costs[static_cast<size_t>(state.labels[table.u]) * columns + state.labels[table.v]];
      if (index[partner] < 0) {
        ofFree += now;
        for (int s = 0; s < core.labels(free[k]); ++s)
          part.costs[k][s] += table.costs[isU ? static_cast<size_t>(s) * columns + state.labels[partner]
                                              : static_cast<size_t>(state.labels[partner]) * columns + s];
      } else if (isU) {
        ofFree += now;
        for (int end : {static_cast<int>(k), index[partner]})
          part.tablesOf[end].push_back(static_cast<int>(part.tables.size()));
        part.tables.push_back({static_cast<int>(k), index[partner], table.costs});
      }
    }
  part.constant = state.cost - ofFree;
  return part;
}

/// Selects the free variables of one neighbourhood.
class Picker {
public:
  Picker(const LocalSearchState &state, Random &random)
      : core(state.core), state(state), random(random), taken(core.size(), 0) {}

  /// Adds variables around a random one in breadth-first order until they have `labels` labels. If a variable has
  /// many neighbours, only some of them are followed.
  void ball(double labels) {
    int start = random.below(core.size());
    for (int tries = 0; tries < 10 && taken[start]; ++tries)
      start = random.below(core.size());
    std::vector<int> frontier{start};
    double sum = 0;
    for (size_t k = 0; k < frontier.size() && sum < labels; ++k) {
      int variable = frontier[k];
      if (!take(variable))
        continue;
      sum += core.labels(variable);
      std::vector<int> tables = core.tablesOf[variable];
      random.shuffle(tables);
      if (tables.size() > 12)
        tables.resize(12);
      for (int t : tables)
        frontier.push_back(core.tables[t].u == variable ? core.tables[t].v : core.tables[t].u);
    }
  }

  /// Adds variables with memory in one random row that is nearly full, until they have `labels` labels.
  void row(double labels) {
    std::vector<int64_t> over = state.loads.all();
    std::vector<int> tight;
    for (size_t r = 0; r < over.size(); ++r)
      if (over[r] > -core.slack[r] / 50)
        tight.push_back(static_cast<int>(r));
    if (tight.empty())
      return ball(labels);
    int chosen = tight[random.below(static_cast<int>(tight.size()))];
    std::vector<int> candidates;
    for (int i = 0; i < core.size(); ++i)
      for (const CoreUsage &usage : core.usages[i])
        if (usage.firstRow <= chosen && chosen < usage.endRow) {
          candidates.push_back(i);
          break;
        }
    double sum = 0;
    for (size_t n = candidates.size(); n > 0 && sum < labels; --n) {
      std::swap(candidates[n - 1], candidates[random.below(static_cast<int>(n))]);
      if (take(candidates[n - 1]))
        sum += core.labels(candidates[n - 1]);
    }
  }

  std::vector<int> picked;

private:
  bool take(int variable) {
    if (taken[variable])
      return false;
    taken[variable] = 1;
    picked.push_back(variable);
    return true;
  }

  const Core &core;
  const LocalSearchState &state;
  Random &random;
  std::vector<char> taken;
};

} // namespace

bool kerf::search::searchNeighbourhoods(LocalSearchState &state, const std::vector<double> &prices,
                                        SearchLimits &limits, int count, int64_t nodes, NeighbourhoodSizes &sizes,
                                        Random &random) {
  const Core &core = state.core;
  bool improved = false;
  double most = static_cast<double>(core.allLabels());
  for (int n = 0; n < count && !limits.exhausted(); ++n) {
    Picker picker(state, random);
    double *size = nullptr;
    switch (random.below(3)) {
    case 0:
      picker.ball(*(size = &sizes.ball));
      break;
    case 1:
      size = &sizes.balls;
      for (int k = 2 + random.below(2); k > 0; --k)
        picker.ball(*size / 2);
      break;
    default:
      picker.row(*(size = &sizes.row));
    }
    std::sort(picker.picked.begin(), picker.picked.end());
    Core part = fixOthers(state, picker.picked);
    limits.stepsLeft -=
        neighbourhoods::kOverhead + part.cells() + 4 * static_cast<int64_t>(core.slack.size()) + core.size();
    Reduction left = reduce(std::move(part));
    SearchLimits inner = limits;
    inner.cutoff = state.cost;
    Labels found;
    OnChoice onChoice = [&](const Labels &labels) {
      found = left.expand(labels);
      inner.cutoff = costOf(left.core, labels);
    };
    int64_t allowed = nodes;
    double unexplored = left.core.infeasible
                            ? kInfinity
                            : branch(left.core, mapPrices(left.core, core.moment, prices), inner, allowed, onChoice);
    limits.stepsLeft = inner.stepsLeft;
    *size = std::clamp(*size * (unexplored == kInfinity ? 1.1 : 0.8), 20.0, most);
    if (found.empty())
      continue;
    for (size_t k = 0; k < found.size(); ++k)
      state.set(picker.picked[k], found[k]);
    improved = true;
  }
  return improved;
}
