// SPDX-License-Identifier: Apache-2.0
#include "Join.h"
#include "PriceWalk.h"
#include "Reduce.h"
#include "Tuning.h"
#include <algorithm>
#include <map>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

/// A pair of neighbouring variables that may be joined.
struct Candidate {
  int u = 0, v = 0;
  int64_t growth = 0; // table entries of the joined core, minus those of the core
  double score = 0;   // the least is joined first
};

/// Returns the variables that share a table with each variable, ascending, indexed by [variable].
std::vector<std::vector<int>> neighboursOf(const Core &core) {
  std::vector<std::vector<int>> neighbours(core.size());
  for (const CoreTable &table : core.tables) {
    neighbours[table.u].push_back(table.v);
    neighbours[table.v].push_back(table.u);
  }
  for (std::vector<int> &list : neighbours)
    std::sort(list.begin(), list.end());
  return neighbours;
}

std::vector<Candidate> candidatesOf(const Core &core, const std::vector<std::vector<int>> &neighbours) {
  std::vector<Candidate> candidates;
  for (const CoreTable &table : core.tables) {
    const std::vector<int> &ofU = neighbours[table.u], &ofV = neighbours[table.v];
    auto pairs = std::count_if(table.costs.begin(), table.costs.end(), [](double cost) { return cost < kInfinity; });
    std::vector<int> common;
    std::set_intersection(ofU.begin(), ofU.end(), ofV.begin(), ofV.end(), std::back_inserter(common));
    int64_t growth = -static_cast<int64_t>(table.costs.size());
    for (int end : {table.u, table.v})
      for (int other : neighbours[end])
        if (other != table.u && other != table.v)
          growth += (pairs - core.labels(end)) * core.labels(other);
    for (int other : common) // one table to the joined variable, not two
      growth -= pairs * core.labels(other);
    double cycles = 1 + join::kCycleWeight * static_cast<double>(common.size());
    candidates.push_back({table.u, table.v, growth, static_cast<double>(growth) / cycles});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate &a, const Candidate &b) { return a.score < b.score; });
  return candidates;
}

/// Returns for each variable the variable that is joined to it, or -1.
std::vector<int> choosePartners(const Core &core, int64_t mostCells) {
  std::vector<std::vector<int>> neighbours = neighboursOf(core);
  std::vector<int> partner(core.size(), -1);
  std::vector<char> taken(core.size(), 0);
  int64_t cells = core.cells();
  for (const Candidate &candidate : candidatesOf(core, neighbours)) {
    if (taken[candidate.u] || taken[candidate.v] || cells + candidate.growth > mostCells)
      continue;
    cells += candidate.growth;
    partner[candidate.u] = candidate.v;
    partner[candidate.v] = candidate.u;
    for (int end : {candidate.u, candidate.v}) { // so that the growth of other candidates stays right
      taken[end] = 1;
      for (int other : neighbours[end])
        taken[other] = 1;
    }
  }
  return partner;
}

/// Builds the core whose variables are single variables and pairs of variables of another core.
class Joiner {
public:
  Joiner(const Core &core, const std::vector<int> &partner) : core(core), newIndex(core.size()) {
    joined.core.constant = core.constant;
    joined.core.quantum = core.quantum;
    joined.core.slack = core.slack;
    joined.core.moment = core.moment;
    for (int i = 0; i < core.size(); ++i) {
      joined.labelsBefore.push_back(core.labels(i));
      if (partner[i] < 0 || i < partner[i])
        addVariable(i, partner[i]);
    }
    joined.core.tablesOf.resize(joined.core.costs.size());
    for (const CoreTable &table : core.tables)
      if (newIndex[table.u] != newIndex[table.v])
        addTable(table);
  }

  Reduction take() { return std::move(joined); }

private:
  double costOfPair(int u, int a, int v, int b) const {
    for (int t : core.tablesOf[u])
      if (const CoreTable &table = core.tables[t]; table.u == v)
        return table.costs[static_cast<size_t>(b) * core.labels(u) + a];
      else if (table.v == v)
        return table.costs[static_cast<size_t>(a) * core.labels(v) + b];
    return 0;
  }

  /// Adds the variable `u`, or the pair of `u` and `v` where `v` is not -1.
  void addVariable(int u, int v) {
    newIndex[u] = joined.core.size();
    joined.variableOf.push_back(u);
    joined.secondOf.push_back(v);
    std::vector<double> costs;
    std::vector<int> first, second;
    if (v >= 0)
      newIndex[v] = newIndex[u];
    for (int a = 0; a < core.labels(u); ++a)
      for (int b = 0; b < (v < 0 ? 1 : core.labels(v)); ++b) {
        double cost = core.costs[u][a] + (v < 0 ? 0 : core.costs[v][b] + costOfPair(u, a, v, b));
        if (v >= 0 && cost == kInfinity)
          continue;
        costs.push_back(cost);
        first.push_back(a);
        second.push_back(b);
      }
    std::vector<CoreUsage> usages;
    auto use = [&](int variable, const std::vector<int> &labels) {
      for (const CoreUsage &usage : core.usages[variable]) {
        usages.push_back({usage.firstRow, usage.endRow, {}});
        for (int label : labels)
          usages.back().bytes.push_back(usage.bytes[label]);
      }
    };
    use(u, first);
    if (v >= 0)
      use(v, second);
    joined.core.infeasible |= costs.empty();
    joined.core.costs.push_back(std::move(costs));
    joined.core.usages.push_back(std::move(usages));
    joined.labelOf.push_back(std::move(first));
    joined.secondLabelOf.push_back(v < 0 ? std::vector<int>() : std::move(second));
  }

  /// Returns the labels of `variable` that the labels of its new variable stand for.
  const std::vector<int> &labelsOf(int variable) const {
    int index = newIndex[variable];
    return joined.variableOf[index] == variable ? joined.labelOf[index] : joined.secondLabelOf[index];
  }

  void addTable(const CoreTable &table) {
    int u = newIndex[table.u], v = newIndex[table.v];
    const std::vector<int> &ofU = labelsOf(table.u), &ofV = labelsOf(table.v);
    auto [place, isNew] = tableBetween.try_emplace(std::minmax(u, v), static_cast<int>(joined.core.tables.size()));
    if (isNew) {
      CoreTable made{u, v, std::vector<double>(ofU.size() * ofV.size(), 0.0)};
      made.messagesToU.assign(ofU.size(), 0.0);
      made.messagesToV.assign(ofV.size(), 0.0);
      joined.core.tables.push_back(std::move(made));
      for (int end : {u, v})
        joined.core.tablesOf[end].push_back(place->second);
    }
    CoreTable &into = joined.core.tables[place->second];
    bool turned = into.u != u;
    size_t columns = core.costs[table.v].size(), stepU = turned ? 1 : ofV.size(), stepV = turned ? ofU.size() : 1;
    for (size_t a = 0; a < ofU.size(); ++a)
      for (size_t b = 0; b < ofV.size(); ++b)
        into.costs[a * stepU + b * stepV] += table.costs[static_cast<size_t>(ofU[a]) * columns + ofV[b]];
    auto move = [](const std::vector<double> &from, const std::vector<int> &labels, std::vector<double> &to) {
      for (size_t s = 0; s < labels.size() && !from.empty(); ++s)
        to[s] += from[labels[s]];
    };
    move(table.messagesToU, ofU, turned ? into.messagesToV : into.messagesToU);
    move(table.messagesToV, ofV, turned ? into.messagesToU : into.messagesToV);
  }

  const Core &core;
  std::vector<int> newIndex; // the joined core's variable, indexed by [variable]
  std::map<std::pair<int, int>, int> tableBetween;
  Reduction joined;
};

} // namespace

std::optional<Reduction> kerf::search::joinPairs(const Core &core, int64_t mostCells) {
  std::vector<int> partner = choosePartners(core, mostCells);
  if (std::all_of(partner.begin(), partner.end(), [](int other) { return other < 0; }))
    return std::nullopt;
  return Joiner(core, partner).take();
}

JoinedBound kerf::search::boundByJoining(const Core &core, const std::vector<double> &first, SearchLimits &limits,
                                         const OnChoice &onChoice) {
  JoinedBound result;
  ReductionStack stack;
  stack.push(reduce(core));
  std::vector<double> prices = mapPrices(stack.core(), core.moment, first);
  uint64_t walks = 0;
  OnChoice offer = [&](const Labels &labels) { onChoice(stack.expand(labels)); };
  while (!stack.core().infeasible && stack.core().size() > 0) {
    const Core &now = stack.core();
    Dual dual(now);
    AscentOptions options;
    options.rate = join::kRate;
    options.width = limits.undecidedWidth(result.bound);
    options.enough = limits.cutoff - limits.leastCostStep;
    int64_t before = limits.stepsLeft;
    int pass = 0;
    double reference = -kInfinity; // the bound kPatience passes ago
    AscentResult ascent =
        ascend(now, dual, prices, options, [&](const AscentResult &sofar, const std::vector<double> &) {
          limits.stepsLeft = before - sofar.steps;
          if (++pass % join::kPatience == 0) {
            if (sofar.bound - reference < join::kWorthwhile * (limits.cutoff - sofar.bound))
              return false;
            reference = sofar.bound;
          }
          return !limits.exhausted();
        });
    double bound = dual.pass(ascent.prices);
    Walk walk = walkUnderPrices(now, dual.round(), ascent.prices, {limits.cutoff, ++walks}, limits.timeIsUp);
    limits.stepsLeft -= walk.steps;
    if (!walk.found.empty())
      offer(walk.found);
    result.bound = std::max({result.bound, ascent.bound, bound});
    if (limits.prunes(result.bound))
      break;
    Reduction left = reduce(dual.prune(limits.cutoff - bound));
    limits.stepsLeft -= join::kStepsOfPruning * now.cells();
    prices = mapPrices(left.core, now.moment, ascent.prices);
    stack.push(std::move(left));
    if (limits.exhausted())
      break;
    std::optional<Reduction> joined =
        joinPairs(stack.core(), std::min(join::kMostCells, limits.stepsLeft / join::kPasses));
    if (!joined)
      break;
    stack.push(std::move(*joined));
    if (stack.core().infeasible)
      break;
    left = reduce(stack.core());
    prices = mapPrices(left.core, stack.core().moment, prices);
    stack.push(std::move(left));
  }
  if (!stack.core().infeasible && stack.core().size() == 0 && stack.core().constant < limits.cutoff)
    offer({});
  if (stack.core().infeasible || stack.core().size() == 0 || limits.prunes(result.bound))
    result.bound = kInfinity;
  result.possible = stack.possible();
  return result;
}
