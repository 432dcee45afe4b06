// SPDX-License-Identifier: Apache-2.0
#include "RandomProblems.h"
#include <algorithm>

using namespace kerf;
using namespace kerf::test;

namespace {

bool keepsTiesAndPins(const Problem &problem, const std::vector<int> &choice) {
  for (const std::vector<int> &tie : problem.ties)
    for (int node : tie)
      if (choice[node] != choice[tie.front()])
        return false;
  for (const Pin &pin : problem.pins)
    if (choice[pin.node] != pin.strategy)
      return false;
  return true;
}

} // namespace

BruteForce kerf::test::bruteForce(const Problem &problem) {
  BruteForce best;
  std::vector<int> choice(problem.nodes.size(), 0);
  while (true) {
    TotalCost cost = keepsTiesAndPins(problem, choice) ? costOf(problem, choice) : kUnboundedTotal;
    if (cost < kUnboundedTotal) {
      int64_t peak = peakBytesOf(problem, choice);
      best.leastPeak = std::min(best.leastPeak, peak);
      if (!problem.memoryLimitBytes || peak <= *problem.memoryLimitBytes)
        best.cost = std::min(best.cost, cost);
    }
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == problem.strategies(i))
      choice[i++] = 0;
    if (i == choice.size())
      return best;
  }
}

Problem kerf::test::randomProblem(const Shape &shape, std::mt19937 &random) {
  auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  auto chance = [&](double share) { return random() % 1000 < share * 1000; };
  Problem problem;
  TableSet tables(problem.tables);
  int nodes = 1 + below(shape.maxNodes);
  int common = 1 + below(shape.maxStrategies); // tied nodes need equal numbers of strategies
  for (int i = 0; i < nodes; ++i) {
    int strategies = chance(0.6) ? common : 1 + below(shape.maxStrategies);
    ProblemNode node{"n" + std::to_string(i), {}};
    for (int s = 0; s < strategies; ++s)
      node.costs.push_back(chance(shape.forbiddenShare / 2) ? kForbidden : below(shape.valueRange));
    problem.nodes.push_back(std::move(node));
  }
  for (int u = 0; u < nodes; ++u)
    for (int v = 0; v < nodes; ++v) {
      if (u == v || !chance(shape.edgeShare / 2))
        continue;
      std::vector<Cost> table;
      for (int c = 0; c < problem.strategies(u) * problem.strategies(v); ++c)
        table.push_back(chance(shape.forbiddenShare) ? kForbidden : below(shape.valueRange));
      problem.edges.push_back({u, v, tables.add(table)});
    }
  if (shape.ties)
    for (int t = 0; t < 2; ++t) {
      std::vector<int> tie;
      for (int i = 0; i < nodes; ++i)
        if (problem.strategies(i) == common && chance(0.4))
          tie.push_back(i);
      problem.ties.push_back(tie);
    }
  if (shape.pins && chance(0.7)) {
    int node = below(nodes);
    problem.pins.push_back({node, below(problem.strategies(node))});
  }
  if (!shape.memory)
    return problem;
  int usages = below(2 * nodes + 1);
  for (int i = 0; i < usages; ++i) {
    MemoryUsage usage{below(nodes), {}, {}};
    for (int intervals = 1 + below(3); intervals > 0; --intervals) {
      int begin = below(12);
      usage.live.push_back({begin, begin + below(8)});
    }
    for (size_t s = 0; s < problem.nodes[usage.node].costs.size(); ++s)
      usage.bytes.push_back(below(30));
    problem.usages.push_back(std::move(usage));
  }
  problem.constantBytes = below(10);
  // Near the peaks of random choices, the limit often binds and is sometimes impossible.
  std::vector<int> choice;
  for (const ProblemNode &node : problem.nodes)
    choice.push_back(below(static_cast<int>(node.costs.size())));
  problem.memoryLimitBytes = std::max<int64_t>(0, peakBytesOf(problem, choice) - below(15));
  return problem;
}
