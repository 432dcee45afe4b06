// SPDX-License-Identifier: Apache-2.0
#include "Families.h"
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr Cost kHuge = Cost(1) << 60;

/// Builds one problem; all random numbers of a family come from here.
class Maker {
public:
  explicit Maker(uint64_t seed, const char *family) : tables(problem.tables), random(seed * 0x9E3779B97F4A7C15u + 1) {
    problem.name = std::string(family) + " " + std::to_string(seed);
  }

  int64_t below(int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool chance(double share) { return static_cast<double>(random() % 1000) < share * 1000; }

  /// Distribution of costs; small numbers by default.
  std::function<Cost()> cost = [this] { return below(valueRange); };
  int64_t valueRange = 50;
  double forbiddenShare = 0;

  int strategies(int node) const { return problem.strategies(node); }
  int size() const { return static_cast<int>(problem.nodes.size()); }

  /// Returns a random number of strategies that keeps the number of choices within kMostChoices.
  int node(int64_t wanted) {
    int64_t count = std::max<int64_t>(1, std::min(wanted, kMostChoices / choices));
    choices *= count;
    ProblemNode made{"n" + std::to_string(problem.nodes.size()), {}};
    for (int64_t s = 0; s < count; ++s)
      made.costs.push_back(chance(forbiddenShare / 2) ? kForbidden : cost());
    problem.nodes.push_back(std::move(made));
    return size() - 1;
  }
  void nodes(int64_t count, int64_t mostStrategies) {
    for (int64_t i = 0; i < count; ++i)
      node(chance(0.1) ? 1 : between(2, mostStrategies));
  }

  void edge(int u, int v, const std::function<Cost(int, int)> &entry) {
    if (chance(0.5))
      return reversed(u, v, entry);
    std::vector<Cost> table;
    for (int a = 0; a < strategies(u); ++a)
      for (int b = 0; b < strategies(v); ++b)
        table.push_back(entry(a, b));
    problem.edges.push_back({u, v, tables.add(table)});
  }
  void edge(int u, int v) {
    edge(u, v, [this](int, int) { return chance(forbiddenShare) ? kForbidden : cost(); });
  }
  /// Adds an edge that allows exactly one strategy of v for each strategy of u, a random bijection.
  void bijection(int u, int v) {
    std::vector<int> partner(strategies(v));
    std::iota(partner.begin(), partner.end(), 0);
    std::shuffle(partner.begin(), partner.end(), random);
    edge(u, v,
         [&](int a, int b) { return a < strategies(v) && partner[a] == b ? (chance(0.5) ? 0 : cost()) : kForbidden; });
  }

  /// Adds random buffers: `perNode` on average, each with up to `mostIntervals` intervals.
  void memory(double perNode, int64_t mostIntervals = 1, int64_t mostBytes = 30, int64_t moments = 8) {
    auto usages = std::max<int64_t>(1, static_cast<int64_t>(perNode * size()));
    for (int64_t i = 0; i < usages; ++i) {
      MemoryUsage usage{static_cast<int>(below(size())), {}, {}};
      for (int64_t times = between(1, mostIntervals); times > 0; --times) {
        int64_t begin = below(moments);
        usage.live.push_back({begin, begin + below(moments)});
      }
      for (int s = 0; s < strategies(usage.node); ++s)
        usage.bytes.push_back(chance(0.15) ? 0 : below(mostBytes));
      problem.usages.push_back(std::move(usage));
    }
  }

  /// Sets a limit between the least peak (`tightness` 0) and the peak of the cheapest choice, where memory binds.
  void limit(double tightness) {
    problem.memoryLimitBytes.reset();
    int64_t least = tryEverything(problem).leastPeak;
    if (least == std::numeric_limits<int64_t>::max())
      least = 0;
    int64_t most = problem.constantBytes;
    for (const MemoryUsage &usage : problem.usages)
      most += *std::max_element(usage.bytes.begin(), usage.bytes.end());
    problem.memoryLimitBytes =
        std::max<int64_t>(0, least + static_cast<int64_t>(tightness * static_cast<double>(most - least)));
  }
  /// Sets a random limit in half of the problems.
  void perhapsMemory() {
    if (!chance(0.5))
      return;
    memory(1.2, 2);
    problem.constantBytes = below(5);
    limit(chance(0.5) ? static_cast<double>(below(200)) / 1000 : static_cast<double>(below(700)) / 1000);
  }
  void ties(int64_t groups) {
    for (int64_t t = 0; t < groups; ++t) {
      std::vector<int> tie;
      int first = static_cast<int>(below(size()));
      for (int i = 0; i < size(); ++i)
        if (strategies(i) == strategies(first) && chance(0.5))
          tie.push_back(i);
      problem.ties.push_back(tie);
    }
  }
  void pin() {
    int node = static_cast<int>(below(size()));
    problem.pins.push_back({node, static_cast<int>(below(strategies(node)))});
  }

  Problem problem;

private:
  void reversed(int u, int v, const std::function<Cost(int, int)> &entry) {
    std::vector<Cost> table;
    for (int b = 0; b < strategies(v); ++b)
      for (int a = 0; a < strategies(u); ++a)
        table.push_back(entry(a, b));
    problem.edges.push_back({v, u, tables.add(table)});
  }

  TableSet tables;
  std::mt19937_64 random;
  int64_t choices = 1;
};

void chainEdges(Maker &make) {
  for (int i = 1; i < make.size(); ++i)
    make.edge(i - 1, i);
}

void denseEdges(Maker &make, double share) {
  for (int u = 0; u < make.size(); ++u)
    for (int v = 0; v < u; ++v)
      if (make.chance(share))
        make.edge(u, v);
}

void treeEdges(Maker &make) {
  for (int i = 1; i < make.size(); ++i)
    make.edge(static_cast<int>(make.below(i)), i);
}

/// A random graph of any shape.
void anyEdges(Maker &make) {
  switch (make.below(4)) {
  case 0:
    return chainEdges(make);
  case 1:
    return treeEdges(make);
  case 2:
    return denseEdges(make, 0.4);
  default:
    return denseEdges(make, 1.0);
  }
}

Problem chain(uint64_t seed) {
  Maker make(seed, "Chain");
  make.forbiddenShare = make.chance(0.3) ? 0.2 : 0;
  make.nodes(make.between(2, 10), 5);
  chainEdges(make);
  make.perhapsMemory();
  return make.problem;
}

Problem tree(uint64_t seed) {
  Maker make(seed, "Tree");
  make.forbiddenShare = make.chance(0.3) ? 0.2 : 0;
  make.nodes(make.between(2, 10), 5);
  treeEdges(make);
  make.perhapsMemory();
  return make.problem;
}

Problem grid(uint64_t seed) {
  Maker make(seed, "Grid");
  int64_t width = make.between(2, 4), height = make.between(2, 12 / width);
  make.forbiddenShare = make.chance(0.3) ? 0.1 : 0;
  make.nodes(width * height, 3);
  for (int i = 0; i < make.size(); ++i) {
    if ((i + 1) % width != 0 && i + 1 < make.size())
      make.edge(i, i + 1);
    if (i + width < make.size())
      make.edge(i, i + static_cast<int>(width));
  }
  make.perhapsMemory();
  return make.problem;
}

Problem dense(uint64_t seed) {
  Maker make(seed, "Dense");
  make.forbiddenShare = make.chance(0.3) ? 0.1 : 0;
  make.nodes(make.between(3, 8), 5);
  denseEdges(make, 1.0);
  make.perhapsMemory();
  return make.problem;
}

Problem tightMemory(uint64_t seed) {
  Maker make(seed, "TightMemory");
  make.nodes(make.between(2, 8), 5);
  anyEdges(make);
  make.memory(1.5, 2);
  make.limit(make.chance(0.4) ? 0 : static_cast<double>(make.below(100)) / 1000);
  return make.problem;
}

/// Infeasible problems: by memory, by forbidden entries, or only by both together.
Problem infeasible(uint64_t seed) {
  Maker make(seed, "Infeasible");
  int64_t kind = make.below(3);
  make.forbiddenShare = kind == 0 ? 0 : kind == 1 ? 0.8 : 0.5;
  make.nodes(make.between(3, 9), 4);
  anyEdges(make);
  make.memory(1.5, 2);
  make.limit(0);
  if (kind != 1)
    make.problem.memoryLimitBytes = std::max<int64_t>(0, *make.problem.memoryLimitBytes - make.between(1, 10));
  return make.problem;
}

Problem zeroCost(uint64_t seed) {
  Maker make(seed, "ZeroCost");
  double zeros = make.chance(0.5) ? 1.0 : 0.9;
  make.cost = [&] { return make.chance(zeros) ? 0 : make.below(3); };
  make.forbiddenShare = make.chance(0.5) ? 0.2 : 0;
  make.nodes(make.between(3, 9), 4);
  anyEdges(make);
  make.perhapsMemory();
  return make.problem;
}

/// Costs whose sums exceed 2^63 and that differ by 1.
Problem hugeCosts(uint64_t seed) {
  Maker make(seed, "HugeCosts");
  switch (make.below(4)) {
  case 0: // nearly equal
    make.cost = [&] { return kHuge + make.between(-20, 20); };
    break;
  case 1: // of all magnitudes
    make.cost = [&] { return make.below(kHuge + 1); };
    break;
  case 2: // small ones, and the file format's "forbidden" cost
    make.cost = [&] { return make.chance(0.3) ? kHuge - make.below(3) : make.below(50); };
    break;
  default: // the largest allowed cost
    make.cost = [&] { return make.chance(0.5) ? kMaxCost - make.below(100) : make.below(kMaxCost); };
  }
  make.forbiddenShare = make.chance(0.3) ? 0.1 : 0;
  make.nodes(make.between(3, 9), 4);
  anyEdges(make);
  make.perhapsMemory();
  return make.problem;
}

Problem singleStrategy(uint64_t seed) {
  Maker make(seed, "SingleStrategy");
  make.forbiddenShare = make.chance(0.3) ? 0.05 : 0;
  for (int64_t i = make.between(2, 12); i > 0; --i)
    make.node(make.chance(0.5) ? 1 : make.between(2, 6));
  anyEdges(make);
  make.perhapsMemory();
  return make.problem;
}

Problem parallelEdges(uint64_t seed) {
  Maker make(seed, "ParallelEdges");
  make.forbiddenShare = make.chance(0.3) ? 0.1 : 0;
  make.nodes(make.between(3, 7), 5);
  for (int64_t i = make.between(2, 14); i > 0; --i) {
    int u = static_cast<int>(make.below(make.size())), v = static_cast<int>(make.below(make.size()));
    if (u != v)
      for (int64_t times = make.between(1, 4); times > 0; --times)
        make.edge(u, v);
  }
  make.perhapsMemory();
  return make.problem;
}

Problem everything(uint64_t seed) {
  Maker make(seed, "Everything");
  make.forbiddenShare = 0.15;
  int64_t common = make.between(2, 4);
  for (int64_t i = make.between(2, 9); i > 0; --i)
    make.node(make.chance(0.7) ? common : make.between(1, 4));
  anyEdges(make);
  make.ties(make.below(3));
  for (int64_t pins = make.below(3); pins > 0; --pins)
    make.pin();
  make.memory(2.0, 3);
  make.problem.constantBytes = make.below(10);
  make.limit(static_cast<double>(make.below(400)) / 1000);
  return make.problem;
}

/// Choices of equal or nearly equal cost, for which bounds prune nothing.
Problem equalCosts(uint64_t seed) {
  Maker make(seed, "EqualCosts");
  int64_t other = make.chance(0.5) ? 0 : 1;
  make.cost = [&] { return 7 + (other && make.chance(0.2) ? 1 : 0); };
  make.nodes(make.between(3, 9), 4);
  anyEdges(make);
  make.perhapsMemory();
  return make.problem;
}

/// Problems whose unavoidable memory exceeds the limit: by the constant bytes, by one node, or by all nodes together.
Problem negativeSlack(uint64_t seed) {
  Maker make(seed, "NegativeSlack");
  make.nodes(make.between(1, 8), 4);
  anyEdges(make);
  make.memory(1.0, 2);
  make.problem.constantBytes = make.below(40);
  make.problem.memoryLimitBytes = make.chance(0.5) ? make.below(make.problem.constantBytes + 1) : make.below(60);
  return make.problem;
}

/// Short-lived buffers of similar size: several moments bind, each for other nodes.
Problem manyMoments(uint64_t seed) {
  Maker make(seed, "ManyMoments");
  make.nodes(make.between(4, 8), 4);
  anyEdges(make);
  for (int i = 0; i < make.size(); ++i)
    for (int64_t buffers = make.between(1, 2); buffers > 0; --buffers) {
      int64_t begin = make.below(6);
      MemoryUsage usage{i, {{begin, begin + make.between(1, 3)}}, {}};
      for (int s = 0; s < make.strategies(i); ++s) // cheaper strategies take more memory
        usage.bytes.push_back(make.between(5, 8) + (make.problem.nodes[i].costs[s] == kForbidden
                                                        ? 0
                                                        : (50 - make.problem.nodes[i].costs[s]) / 4));
      make.problem.usages.push_back(std::move(usage));
    }
  make.limit(static_cast<double>(make.below(300)) / 1000);
  return make.problem;
}

Problem bijections(uint64_t seed) {
  Maker make(seed, "Bijections");
  int64_t common = make.between(2, 5);
  for (int64_t i = make.between(3, 9); i > 0; --i)
    make.node(make.chance(0.8) ? common : make.between(1, 4));
  for (int v = 1; v < make.size(); ++v) {
    int u = static_cast<int>(make.below(v));
    if (make.chance(0.6) && make.strategies(u) == make.strategies(v))
      make.bijection(u, v);
    else
      make.edge(u, v);
    if (make.chance(0.3)) { // a cycle, around which the bijections may contradict each other
      int w = static_cast<int>(make.below(v));
      if (make.strategies(w) == make.strategies(v) && make.chance(0.5))
        make.bijection(w, v);
      else
        make.edge(w, v);
    }
  }
  make.perhapsMemory();
  return make.problem;
}

/// A hub with leaves that take memory, so that leaves cannot be decided independently.
Problem stars(uint64_t seed) {
  Maker make(seed, "Stars");
  int64_t hubs = make.between(1, 2);
  make.nodes(hubs, 5);
  for (int64_t leaves = make.between(3, 9); leaves > 0; --leaves)
    make.edge(static_cast<int>(make.below(hubs)), make.node(make.between(2, 4)));
  if (hubs == 2)
    make.edge(0, 1);
  for (int i = 0; i < make.size(); ++i)
    if (make.chance(0.8)) {
      int64_t begin = make.chance(0.5) ? 0 : make.below(4);
      MemoryUsage usage{i, {{begin, begin + make.between(1, 4)}}, {}};
      for (int s = 0; s < make.strategies(i); ++s)
        usage.bytes.push_back(make.below(30));
      make.problem.usages.push_back(std::move(usage));
    }
  if (make.problem.usages.empty())
    make.memory(1.0);
  make.limit(static_cast<double>(make.below(500)) / 1000);
  return make.problem;
}

/// Enumerates all choices; cost and memory of a prefix of nodes are computed once for all its extensions.
class Everything {
public:
  explicit Everything(const Problem &problem)
      : problem(problem), choice(problem.nodes.size()), edgesOf(problem.nodes.size()) {
    std::map<int64_t, size_t> momentOf; // peaks occur where a buffer begins
    for (const MemoryUsage &usage : problem.usages)
      for (const LiveInterval &live : usage.live)
        if (live.begin < live.end)
          momentOf.emplace(live.begin, 0);
    size_t moments = 0;
    for (auto &[moment, index] : momentOf)
      index = moments++;
    bytes.resize(problem.nodes.size());
    for (size_t i = 0; i < problem.nodes.size(); ++i)
      bytes[i].assign(problem.nodes[i].costs.size(), std::vector<int64_t>(moments, 0));
    for (const MemoryUsage &usage : problem.usages)
      for (const LiveInterval &live : usage.live)
        for (const auto &[moment, index] : momentOf)
          if (live.begin <= moment && moment < live.end)
            for (size_t s = 0; s < usage.bytes.size(); ++s)
              bytes[usage.node][s][index] += usage.bytes[s];
    levels.assign(problem.nodes.size() + 1, std::vector<int64_t>(moments, problem.constantBytes));
    for (const ProblemEdge &edge : problem.edges)
      edgesOf[std::max(edge.u, edge.v)].push_back(edge);
    same.resize(problem.nodes.size());
    for (const std::vector<int> &tie : problem.ties)
      for (int a : tie)
        for (int b : tie)
          if (a < b)
            same[b].push_back(a);
  }

  Exact run() {
    visit(0, 0);
    return exact;
  }

private:
  bool allowed(int node, int s) const {
    for (const Pin &pin : problem.pins)
      if (pin.node == node && pin.strategy != s)
        return false;
    return std::all_of(same[node].begin(), same[node].end(), [&](int other) { return choice[other] == s; });
  }

  void visit(size_t node, TotalCost cost) {
    if (node == choice.size()) {
      int64_t peak = problem.constantBytes;
      for (int64_t level : levels[node])
        peak = std::max(peak, level);
      exact.leastPeak = std::min(exact.leastPeak, peak);
      if (!problem.memoryLimitBytes || peak <= *problem.memoryLimitBytes)
        exact.cost = std::min(exact.cost, cost);
      return;
    }
    for (int s = 0; s < problem.strategies(static_cast<int>(node)); ++s) {
      if (!allowed(static_cast<int>(node), s))
        continue;
      choice[node] = s;
      TotalCost more = problem.nodes[node].costs[s];
      bool forbidden = problem.nodes[node].costs[s] == kForbidden;
      for (const ProblemEdge &edge : edgesOf[node]) {
        Cost entry = problem.costOf(edge, choice[edge.u], choice[edge.v]);
        forbidden = forbidden || entry == kForbidden;
        more += entry;
      }
      if (forbidden)
        continue;
      for (size_t t = 0; t < levels[node].size(); ++t)
        levels[node + 1][t] = levels[node][t] + bytes[node][s][t];
      visit(node + 1, cost + more);
    }
  }

  const Problem &problem;
  std::vector<int> choice;
  std::vector<std::vector<ProblemEdge>> edgesOf;        // by the later of the two nodes
  std::vector<std::vector<int>> same;                   // [node]: earlier nodes that it is tied to
  std::vector<std::vector<std::vector<int64_t>>> bytes; // [node][strategy][moment]
  std::vector<std::vector<int64_t>> levels;             // [n][moment]: bytes of the first n nodes
  Exact exact;
};

constexpr Family kFamilies[] = {{"Chain", chain},
                                {"Tree", tree},
                                {"Grid", grid},
                                {"Dense", dense},
                                {"TightMemory", tightMemory},
                                {"Infeasible", infeasible},
                                {"ZeroCost", zeroCost},
                                {"HugeCosts", hugeCosts},
                                {"SingleStrategy", singleStrategy},
                                {"ParallelEdges", parallelEdges},
                                {"Everything", everything},
                                {"EqualCosts", equalCosts},
                                {"NegativeSlack", negativeSlack},
                                {"ManyMoments", manyMoments},
                                {"Bijections", bijections},
                                {"Stars", stars}};

} // namespace

std::span<const Family> kerf::test::families() { return kFamilies; }

Exact kerf::test::tryEverything(const Problem &problem) { return Everything(problem).run(); }
