// SPDX-License-Identifier: Apache-2.0
#include "Core.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr double kExactSum = 0x1p50; // largest sum of integers that leaves two bits of a double for the solver's sums
constexpr int kQuantaBits = 48;      // bits of the largest sum, in quanta
constexpr int kFinestQuantum = -20;  // exponent of the finest quantum: a millionth of a cost unit

int root(std::vector<int> &parent, int node) {
  while (parent[node] != node)
    node = parent[node] = parent[parent[node]];
  return node;
}

/// Returns the variable of each node: tied nodes share one, and variables are numbered by their first node.
std::vector<int> mergeTies(const Problem &problem, int &count) {
  std::vector<int> parent(problem.nodes.size());
  std::iota(parent.begin(), parent.end(), 0);
  for (const std::vector<int> &tie : problem.ties)
    for (int node : tie) {
      int a = root(parent, tie.front()), b = root(parent, node);
      parent[std::max(a, b)] = std::min(a, b);
    }
  std::vector<int> variableOf(problem.nodes.size());
  count = 0;
  for (size_t i = 0; i < variableOf.size(); ++i) {
    int first = root(parent, static_cast<int>(i));
    variableOf[i] = first == static_cast<int>(i) ? count++ : variableOf[first];
  }
  return variableOf;
}

/// Returns the largest cost that is not huge. A cost is huge when it exceeds the sum, over all nodes and edges, of each
/// one's largest cost that is not huge.
Cost largestOfInterest(const Problem &problem) {
  std::array<TotalCost, 64> sumUpTo{}; // [bits]: sum over nodes and edges of the largest cost of at most that many bits
  std::array<Cost, 64> least{};        // [bits]: the least cost of exactly that many bits; 0: none
  auto look = [&](const std::vector<Cost> &costs, int64_t times) {
    std::array<Cost, 64> largest{};
    for (Cost cost : costs) {
      if (cost == kForbidden)
        continue;
      int bits = std::bit_width(static_cast<uint64_t>(cost));
      largest[bits] = std::max(largest[bits], cost);
      if (least[bits] == 0 || cost < least[bits])
        least[bits] = cost;
    }
    Cost sofar = 0;
    for (int bits = 0; bits < 64; ++bits) {
      sofar = std::max(sofar, largest[bits]);
      sumUpTo[bits] += static_cast<TotalCost>(sofar) * times;
    }
  };
  for (const ProblemNode &node : problem.nodes)
    look(node.costs, 1);
  std::vector<int64_t> uses(problem.tables.size(), 0);
  for (const ProblemEdge &edge : problem.edges)
    ++uses[edge.table];
  for (size_t t = 0; t < problem.tables.size(); ++t)
    look(problem.tables[t], uses[t]);
  int top = 63;
  while (top > 0 && least[top] == 0)
    --top;
  for (int bits = top - 1; bits > 0; --bits) {
    int next = bits + 1;
    while (least[next] == 0)
      ++next;
    if (least[bits] != 0 && sumUpTo[bits] < least[next])
      return (Cost(1) << bits) - 1;
  }
  return kMaxCost;
}

/// The moments that need a memory row: those whose set of live buffers is not contained in a neighbouring moment's.
class Moments {
public:
  explicit Moments(const std::vector<MemoryUsage> &usages) {
    std::vector<int64_t> begins, ends;
    for (const MemoryUsage &usage : usages)
      for (const LiveInterval &live : usage.live)
        if (live.begin < live.end)
          begins.push_back(live.begin), ends.push_back(live.end);
    for (std::vector<int64_t> *events : {&begins, &ends}) {
      std::sort(events->begin(), events->end());
      events->erase(std::unique(events->begin(), events->end()), events->end());
    }
    // If no interval ends before the next one begins, all buffers that are live here are live there too.
    for (size_t i = 0; i < begins.size(); ++i) {
      auto end = std::upper_bound(ends.begin(), ends.end(), begins[i]);
      if (i + 1 == begins.size() || (end != ends.end() && *end <= begins[i + 1]))
        rows.push_back(begins[i]);
    }
  }
  int rowAtOrAfter(int64_t moment) const {
    return static_cast<int>(std::lower_bound(rows.begin(), rows.end(), moment) - rows.begin());
  }
  std::vector<int64_t> rows;
};

void addUsages(const Problem &problem, const std::vector<int> &variableOf, Core &core) {
  if (!problem.memoryLimitBytes)
    return;
  Moments moments(problem.usages);
  core.moment = moments.rows;
  core.slack.assign(core.moment.size(), *problem.memoryLimitBytes - problem.constantBytes);
  if (problem.constantBytes > *problem.memoryLimitBytes)
    core.infeasible = true;
  for (const MemoryUsage &usage : problem.usages)
    for (const LiveInterval &live : usage.live) {
      CoreUsage rows{moments.rowAtOrAfter(live.begin), moments.rowAtOrAfter(live.end), usage.bytes};
      if (rows.firstRow < rows.endRow)
        core.usages[variableOf[usage.node]].push_back(std::move(rows));
    }
}

/// Fills a core with costs and tables as doubles, and rounds them to quanta at the end.
class CostBuilder {
public:
  CostBuilder(const Problem &problem, const std::vector<int> &variableOf, Cost largest, TotalCost mostAboveLeast,
              BuiltCore &built)
      : problem(problem), variableOf(variableOf), largest(largest), mostAboveLeast(mostAboveLeast), built(built) {}

  void run() {
    addNodes();
    addEdges();
    for (const Pin &pin : problem.pins) {
      std::vector<double> &costs = built.core.costs[variableOf[pin.node]];
      for (size_t s = 0; s < costs.size(); ++s)
        if (static_cast<int>(s) != pin.strategy)
          costs[s] = kInfinity;
    }
    toQuanta();
  }

private:
  double toDouble(Cost cost, Cost least) {
    if (cost == kForbidden || (cost <= largest && cost - least > mostAboveLeast))
      return kInfinity;
    if (cost > largest) {
      built.hugeLeftOut = true;
      built.leastHuge = std::min(built.leastHuge, cost);
      return kInfinity;
    }
    return static_cast<double>(cost - least);
  }

  /// Returns the least entry. Subtracting it from all entries and adding it to the offset keeps large costs exact.
  Cost leastOf(const std::vector<Cost> &costs) {
    Cost least = *std::min_element(costs.begin(), costs.end());
    return least > largest || least == kForbidden ? 0 : least;
  }

  void addNodes() {
    for (size_t i = 0; i < problem.nodes.size(); ++i) {
      const std::vector<Cost> &theirs = problem.nodes[i].costs;
      std::vector<double> &costs = built.core.costs[variableOf[i]];
      costs.resize(theirs.size(), 0.0);
      Cost least = leastOf(theirs);
      built.offset += least;
      for (size_t s = 0; s < costs.size(); ++s)
        costs[s] += toDouble(theirs[s], least);
    }
  }

  void addEdges() {
    struct Use {
      int u, v, edge; // u < v
      auto operator<=>(const Use &) const = default;
    };
    std::vector<Use> uses;
    for (size_t e = 0; e < problem.edges.size(); ++e) {
      int u = variableOf[problem.edges[e].u], v = variableOf[problem.edges[e].v];
      uses.push_back({std::min(u, v), std::max(u, v), static_cast<int>(e)});
    }
    std::sort(uses.begin(), uses.end());
    for (const Use &use : uses) {
      const ProblemEdge &edge = problem.edges[use.edge];
      const std::vector<Cost> &theirs = problem.tables[edge.table];
      size_t rows = problem.nodes[edge.u].costs.size(), columns = problem.nodes[edge.v].costs.size();
      Cost least = leastOf(theirs);
      built.offset += least;
      auto cost = [&](size_t a, size_t b) { return toDouble(theirs[a * columns + b], least); };
      if (use.u == use.v) {
        for (size_t s = 0; s < rows; ++s)
          built.core.costs[use.u][s] += cost(s, s);
        continue;
      }
      std::vector<CoreTable> &tables = built.core.tables;
      if (tables.empty() || tables.back().u != use.u || tables.back().v != use.v)
        tables.push_back({use.u, use.v, std::vector<double>(rows * columns, 0.0)});
      bool turned = variableOf[edge.u] != use.u;
      for (size_t a = 0; a < rows; ++a)
        for (size_t b = 0; b < columns; ++b)
          tables.back().costs[turned ? b * rows + a : a * columns + b] += cost(a, b);
    }
  }

  void toQuanta() {
    Core &core = built.core;
    double most = largestSum(core);
    int exponent = std::max(kFinestQuantum, static_cast<int>(std::ceil(std::log2(most + 1))) - kQuantaBits);
    core.quantum = std::exp2(exponent);
    built.exact = most <= kExactSum;
    if (built.exact)
      core.quantum = std::min(core.quantum, 1.0);
    if (core.quantum <= 1)
      return;
    // A cost that a double cannot hold may have been rounded up by half an ulp at each addition, so it is lowered.
    auto down = [&](std::vector<double> &costs) {
      for (double &cost : costs)
        if (cost < kInfinity)
          cost = std::max(0.0, std::floor(cost * (1 - 0x1p-44) / core.quantum) * core.quantum);
    };
    for (std::vector<double> &costs : core.costs)
      down(costs);
    for (CoreTable &table : core.tables)
      down(table.costs);
  }

  const Problem &problem;
  const std::vector<int> &variableOf;
  const Cost largest;
  const TotalCost mostAboveLeast;
  BuiltCore &built;
};

double largestFinite(const std::vector<double> &costs) {
  double largest = 0;
  for (double cost : costs)
    if (cost < kInfinity)
      largest = std::max(largest, std::abs(cost));
  return largest;
}

} // namespace

int64_t Core::allLabels() const {
  int64_t sum = 0;
  for (const std::vector<double> &labels : costs)
    sum += static_cast<int64_t>(labels.size());
  return sum;
}

int64_t Core::usageEntries() const {
  int64_t sum = 0;
  for (const std::vector<CoreUsage> &list : usages)
    for (const CoreUsage &usage : list)
      sum += static_cast<int64_t>(usage.bytes.size());
  return sum;
}

int64_t Core::cells() const {
  int64_t sum = 0;
  for (const CoreTable &table : tables)
    sum += static_cast<int64_t>(table.costs.size());
  return sum;
}

double kerf::search::largestSum(const Core &core) {
  double sum = std::abs(core.constant);
  for (const std::vector<double> &costs : core.costs)
    sum += largestFinite(costs);
  for (const CoreTable &table : core.tables)
    sum += largestFinite(table.costs);
  return sum;
}

double kerf::search::costOfSlack(const Core &core, const std::vector<double> &prices) {
  double total = 0;
  for (size_t r = 0; r < prices.size(); ++r)
    total += prices[r] * core.positiveSlack(r);
  return total;
}

double kerf::search::costOf(const Core &core, const Labels &labels) {
  double cost = core.constant;
  for (int i = 0; i < core.size(); ++i)
    cost += core.costs[i][labels[i]];
  for (const CoreTable &table : core.tables)
    cost += table.costs[static_cast<size_t>(labels[table.u]) * core.labels(table.v) + labels[table.v]];
  return cost;
}

BuiltCore kerf::search::buildCore(const Problem &problem, bool leaveOutHuge, TotalCost mostAboveLeast) {
  BuiltCore built;
  int variables = 0;
  built.variableOf = mergeTies(problem, variables);
  Core &core = built.core;
  core.costs.resize(variables);
  core.usages.resize(variables);
  core.tablesOf.resize(variables);
  CostBuilder(problem, built.variableOf, leaveOutHuge ? largestOfInterest(problem) : kMaxCost, mostAboveLeast, built)
      .run();
  for (size_t t = 0; t < core.tables.size(); ++t)
    for (int end : {core.tables[t].u, core.tables[t].v})
      core.tablesOf[end].push_back(static_cast<int>(t));
  addUsages(problem, built.variableOf, core);
  return built;
}
