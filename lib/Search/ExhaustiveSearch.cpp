// SPDX-License-Identifier: Apache-2.0
#include "ExhaustiveSearch.h"
#include <algorithm>
#include <map>

using namespace kerf;
using namespace kerf::search;

namespace {

class Search {
public:
  Search(const Problem &problem, std::optional<TotalCost> known, int64_t steps)
      : problem(problem), best(known.value_or(kUnboundedTotal)), steps(steps) {
    size_t count = problem.nodes.size();
    edgesOf.resize(count);
    usagesOf.resize(count);
    pinned.assign(count, -1);
    for (const Pin &pin : problem.pins)
      pinned[pin.node] = pin.strategy;
    leastAfter.assign(count + 1, 0);
    for (const ProblemEdge &edge : problem.edges) {
      // An edge's cost is added at its later node; until then its least entry bounds it.
      int later = std::max(edge.u, edge.v);
      edgesOf[later].push_back(&edge);
      leastAfter[later] += leastOf(problem.tables[edge.table]);
    }
    for (size_t i = 0; i < count; ++i)
      leastAfter[i] += leastOf(problem.nodes[i].costs);
    for (size_t i = count; i-- > 0;)
      leastAfter[i] += leastAfter[i + 1];
    for (const std::vector<int> &tie : problem.ties)
      for (int node : tie)
        for (int other : tie)
          if (other < node)
            ties.push_back({node, other});
    for (const MemoryUsage &usage : problem.usages)
      usagesOf[usage.node].push_back(&usage);
    for (const MemoryUsage &usage : problem.usages)
      for (const LiveInterval &live : usage.live)
        if (live.begin < live.end)
          load[live.begin];
    for (auto &[_, bytes] : load)
      bytes = problem.constantBytes;
    choice.assign(count, 0);
  }

  ExhaustiveResult run() {
    if (!problem.memoryLimitBytes || problem.constantBytes <= *problem.memoryLimitBytes)
      explore(0, 0);
    return {found, steps > 0};
  }

private:
  TotalCost leastOf(const std::vector<Cost> &costs) const {
    Cost least = *std::min_element(costs.begin(), costs.end());
    return least == kForbidden ? 0 : least;
  }

  void addBytes(int node, int strategy, int sign) {
    for (const MemoryUsage *usage : usagesOf[node])
      for (const LiveInterval &live : usage->live)
        for (auto at = load.lower_bound(live.begin); at != load.end() && at->first < live.end; ++at)
          at->second += sign * usage->bytes[strategy];
  }

  bool fits() const {
    return !problem.memoryLimitBytes || std::all_of(load.begin(), load.end(), [&](const auto &moment) {
      return moment.second <= *problem.memoryLimitBytes;
    });
  }

  void explore(int node, TotalCost sofar) {
    if (--steps <= 0 || sofar + leastAfter[node] >= best)
      return;
    if (node == static_cast<int>(choice.size())) {
      best = sofar;
      found = choice;
      return;
    }
    for (int s = 0; s < problem.strategies(node) && steps > 0; ++s) {
      TotalCost cost = sofar;
      bool allowed = (pinned[node] < 0 || pinned[node] == s) && problem.nodes[node].costs[s] != kForbidden;
      for (auto [later, earlier] : ties)
        allowed &= later != node || choice[earlier] == s;
      if (!allowed)
        continue;
      cost += problem.nodes[node].costs[s];
      choice[node] = s;
      for (const ProblemEdge *edge : edgesOf[node]) {
        Cost between = problem.costOf(*edge, choice[edge->u], choice[edge->v]);
        allowed &= between != kForbidden;
        cost += between;
      }
      if (!allowed)
        continue;
      addBytes(node, s, +1);
      if (fits()) // memory only grows with further nodes, so an overflow prunes
        explore(node + 1, cost);
      addBytes(node, s, -1);
    }
  }

  const Problem &problem;
  std::vector<std::vector<const ProblemEdge *>> edgesOf;
  std::vector<std::vector<const MemoryUsage *>> usagesOf;
  std::vector<std::pair<int, int>> ties;
  std::vector<int> pinned;
  std::vector<TotalCost> leastAfter; // [node]: least cost of the node and all later ones
  std::map<int64_t, int64_t> load;   // live bytes, by moment at which a buffer begins
  std::vector<int> choice, found;
  TotalCost best;
  int64_t steps;
};

} // namespace

ExhaustiveResult kerf::search::searchExhaustively(const Problem &problem, std::optional<TotalCost> known,
                                                  int64_t steps) {
  return Search(problem, known, steps).run();
}
