// SPDX-License-Identifier: Apache-2.0
#include "TreeMoves.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace kerf;
using namespace kerf::search;

namespace {

class TreeMover {
public:
  TreeMover(LocalSearchState &state, const std::vector<std::vector<double>> &priced, Random &random)
      : state(state), core(state.core), priced(priced), random(random), chosen(core.size(), 0),
        parentTable(core.size(), -1), costs(core.size()) {}

  void run() {
    choose();
    arrange();
    for (int variable : order)
      startCosts(variable);
    for (size_t k = order.size(); k-- > 0;)
      if (parentTable[order[k]] >= 0)
        sendToParent(order[k]);
    for (int variable : order)
      takeCheapest(variable);
  }

private:
  int neighbour(int table, int variable) const {
    const CoreTable &of = core.tables[table];
    return of.u == variable ? of.v : of.u;
  }

  /// Returns the entry of a table for a label of `variable` and a label of its neighbour.
  double entry(const CoreTable &table, int variable, int mine, int other) const {
    size_t columns = core.costs[table.v].size();
    size_t at = table.u == variable ? static_cast<size_t>(mine) * columns + static_cast<size_t>(other)
                                    : static_cast<size_t>(other) * columns + static_cast<size_t>(mine);
    return std::min(table.costs[at], kForbiddenCost);
  }

  /// Calls `visit` for variable after variable, breadth first from random ones, and goes on to the neighbours of those
  /// for which it returns true.
  template <typename Visit> void breadthFirst(Visit visit) {
    std::vector<int> starts(core.size()), queue;
    std::iota(starts.begin(), starts.end(), 0);
    random.shuffle(starts);
    std::vector<char> seen(core.size(), 0);
    for (int start : starts) {
      if (seen[start])
        continue;
      seen[start] = 1;
      queue.assign(1, start);
      for (size_t k = 0; k < queue.size(); ++k) {
        int variable = queue[k];
        if (!visit(variable))
          continue;
        size_t before = queue.size();
        for (int t : core.tablesOf[variable])
          if (int other = neighbour(t, variable); !seen[other])
            seen[other] = 1, queue.push_back(other);
        random.shuffle(queue, before);
      }
    }
  }

  /// Chooses variables one after the other, except those that would close a cycle.
  void choose() {
    std::vector<int> parent(core.size());
    std::iota(parent.begin(), parent.end(), 0);
    auto root = [&](int variable) {
      while (parent[variable] != variable)
        variable = parent[variable] = parent[parent[variable]];
      return variable;
    };
    std::vector<int> roots;
    breadthFirst([&](int variable) {
      roots.clear();
      for (int t : core.tablesOf[variable]) {
        int other = neighbour(t, variable);
        if (!chosen[other])
          continue;
        int tree = root(other);
        if (std::find(roots.begin(), roots.end(), tree) != roots.end())
          return false;
        roots.push_back(tree);
      }
      for (int tree : roots)
        parent[tree] = variable;
      chosen[variable] = 1;
      return true;
    });
  }

  /// Puts the chosen variables into an order in which each parent comes before its children.
  void arrange() {
    std::vector<char> seen(core.size(), 0);
    for (int start = 0; start < core.size(); ++start) {
      if (!chosen[start] || seen[start])
        continue;
      seen[start] = 1;
      size_t k = order.size();
      order.push_back(start);
      for (; k < order.size(); ++k)
        for (int t : core.tablesOf[order[k]])
          if (int other = neighbour(t, order[k]); chosen[other] && !seen[other]) {
            seen[other] = 1;
            parentTable[other] = t;
            order.push_back(other);
          }
    }
  }

  /// Sets the costs of a variable's labels: its own, its memory's, and its tables with variables that keep their label.
  void startCosts(int variable) {
    std::vector<double> &mine = costs[variable];
    mine = core.costs[variable];
    for (size_t s = 0; s < mine.size(); ++s)
      mine[s] += priced[variable][s];
    for (int t : core.tablesOf[variable]) {
      int other = neighbour(t, variable);
      if (chosen[other])
        continue;
      for (size_t s = 0; s < mine.size(); ++s)
        mine[s] += entry(core.tables[t], variable, static_cast<int>(s), state.labels[other]);
      state.steps += core.labels(variable);
    }
  }

  /// Adds the least cost of a variable and all below it to the costs of each label of the parent.
  void sendToParent(int variable) {
    const CoreTable &table = core.tables[parentTable[variable]];
    int parent = neighbour(parentTable[variable], variable);
    for (int p = 0; p < core.labels(parent); ++p) {
      double least = kInfinity;
      for (int s = 0; s < core.labels(variable); ++s)
        least = std::min(least, costs[variable][s] + entry(table, variable, s, p));
      costs[parent][p] += least;
    }
    state.steps += static_cast<int64_t>(table.costs.size());
  }

  void takeCheapest(int variable) {
    std::vector<double> &mine = costs[variable];
    if (parentTable[variable] >= 0) {
      int label = state.labels[neighbour(parentTable[variable], variable)];
      for (size_t s = 0; s < mine.size(); ++s)
        mine[s] += entry(core.tables[parentTable[variable]], variable, static_cast<int>(s), label);
    }
    auto best = std::min_element(mine.begin(), mine.end());
    double now = mine[state.labels[variable]];
    if (*best < now - 1e-9 * std::abs(now)) // a gain within rounding errors is none
      state.set(variable, static_cast<int>(best - mine.begin()));
  }

  LocalSearchState &state;
  const Core &core;
  const std::vector<std::vector<double>> &priced;
  Random &random;
  std::vector<char> chosen;               // whether a variable may change
  std::vector<int> order, parentTable;    // the chosen variables; [variable]: table to its parent, -1: a root
  std::vector<std::vector<double>> costs; // [variable][label]: the least cost of the label and all below the variable
};

} // namespace

void kerf::search::moveTrees(LocalSearchState &state, const std::vector<std::vector<double>> &priced, Random &random) {
  TreeMover(state, priced, random).run();
}
