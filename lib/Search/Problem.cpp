// SPDX-License-Identifier: Apache-2.0
// Checks of problems and solutions, and the cost of a choice. They follow the definition and share no
// code with the solver.
#include "kerf/Search/Problem.h"
#include <algorithm>
#include <fmt/format.h>

using namespace kerf;

namespace {

// Sums of bytes must stay far from overflowing 64 bits.
constexpr TotalCost kMaxTotalBytes = TotalCost(1) << 61;

Error problemError(std::string message) { return Error{"placement problem: " + std::move(message)}; }

bool isCost(Cost cost) { return (cost >= 0 && cost <= kMaxCost) || cost == kForbidden; }

Status checkNodes(const Problem &problem) {
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const ProblemNode &node = problem.nodes[i];
    if (node.costs.empty())
      return problemError(fmt::format("node {} ('{}') has no strategy; every node needs at least one", i, node.name));
    for (size_t s = 0; s < node.costs.size(); ++s)
      if (!isCost(node.costs[s]))
        return problemError(fmt::format("node {} ('{}'): strategy {} costs {}; must be 0 to {}, or kForbidden", i,
                                        node.name, s, node.costs[s], kMaxCost));
  }
  return ok();
}

Status checkEdges(const Problem &problem) {
  auto count = static_cast<int>(problem.nodes.size());
  for (size_t t = 0; t < problem.tables.size(); ++t)
    for (Cost cost : problem.tables[t])
      if (!isCost(cost))
        return problemError(
            fmt::format("table {} has an entry of {}; must be 0 to {}, or kForbidden", t, cost, kMaxCost));
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    const ProblemEdge &edge = problem.edges[e];
    if (edge.u < 0 || edge.u >= count || edge.v < 0 || edge.v >= count)
      return problemError(
          fmt::format("edge {} joins nodes {} and {}, but there are {} nodes", e, edge.u, edge.v, count));
    const ProblemNode &u = problem.nodes[edge.u], &v = problem.nodes[edge.v];
    if (edge.u == edge.v)
      return problemError(fmt::format("edge {} joins node {} ('{}') with itself; add its table to the node's costs", e,
                                      edge.u, u.name));
    if (edge.table < 0 || edge.table >= static_cast<int64_t>(problem.tables.size()))
      return problemError(fmt::format("edge {} ('{}' - '{}') has table {}, but there are {} tables", e, u.name, v.name,
                                      edge.table, problem.tables.size()));
    size_t entries = problem.tables[edge.table].size();
    if (entries != u.costs.size() * v.costs.size())
      return problemError(
          fmt::format("edge {} ('{}' - '{}') has a table of {} entries; its nodes have {} x {} strategies", e, u.name,
                      v.name, entries, u.costs.size(), v.costs.size()));
  }
  return ok();
}

/// Returns an upper bound of the live bytes at any moment in linear time: the largest size of every buffer, summed.
TotalCost sumOfLargestBytes(const Problem &problem) {
  TotalCost total = problem.constantBytes;
  for (const MemoryUsage &usage : problem.usages)
    total +=
        TotalCost(*std::max_element(usage.bytes.begin(), usage.bytes.end())) * static_cast<int64_t>(usage.live.size());
  return total;
}

/// The most bytes that can be live at one moment, over all choices.
struct LargestBytes {
  TotalCost bytes = 0;
  int64_t moment = 0;
};

/// Returns the most bytes that can be live at one moment. It sorts all intervals, so the linear sum is tried first.
LargestBytes largestBytesTogether(const Problem &problem) {
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const MemoryUsage &usage : problem.usages)
    for (const LiveInterval &live : usage.live)
      if (live.begin < live.end) {
        int64_t bytes = *std::max_element(usage.bytes.begin(), usage.bytes.end());
        changes.emplace_back(live.begin, bytes);
        changes.emplace_back(live.end, -bytes);
      }
  std::sort(changes.begin(), changes.end());
  TotalCost bytes = problem.constantBytes;
  LargestBytes largest{bytes, 0};
  for (const auto &[moment, change] : changes) {
    bytes += change;
    if (bytes > largest.bytes)
      largest = {bytes, moment};
  }
  return largest;
}

Status checkUsages(const Problem &problem) {
  auto count = static_cast<int>(problem.nodes.size());
  if (problem.constantBytes < 0)
    return problemError(fmt::format("constantBytes is {}; must be 0 or more", problem.constantBytes));
  for (size_t i = 0; i < problem.usages.size(); ++i) {
    const MemoryUsage &usage = problem.usages[i];
    if (usage.node < 0 || usage.node >= count)
      return problemError(fmt::format("usage {} belongs to node {}, but there are {} nodes", i, usage.node, count));
    const ProblemNode &node = problem.nodes[usage.node];
    if (usage.bytes.size() != node.costs.size())
      return problemError(fmt::format("usage {} of node '{}' has {} entries; the node has {} strategies", i, node.name,
                                      usage.bytes.size(), node.costs.size()));
    for (int64_t bytes : usage.bytes)
      if (bytes < 0)
        return problemError(
            fmt::format("usage {} of node '{}' has an entry of {} bytes; must be 0 or more", i, node.name, bytes));
    for (const LiveInterval &live : usage.live)
      if (live.end < live.begin)
        return problemError(fmt::format("usage {} of node '{}' is live from {} to {}; it must not end before it begins",
                                        i, node.name, live.begin, live.end));
  }
  if (sumOfLargestBytes(problem) > kMaxTotalBytes)
    if (LargestBytes largest = largestBytesTogether(problem); largest.bytes > kMaxTotalBytes)
      return problemError(
          fmt::format("the buffers live at moment {} can sum to {} bytes, more than 2^61; give bytes in a larger unit",
                      largest.moment, toString(largest.bytes)));
  if (problem.memoryLimitBytes && *problem.memoryLimitBytes < 0)
    return problemError(fmt::format("the memory limit is {} bytes; must be 0 or more", *problem.memoryLimitBytes));
  return ok();
}

Status checkTiesAndPins(const Problem &problem) {
  auto count = static_cast<int>(problem.nodes.size());
  for (size_t t = 0; t < problem.ties.size(); ++t)
    for (int node : problem.ties[t]) {
      if (node < 0 || node >= count)
        return problemError(fmt::format("tie {} names node {}, but there are {} nodes", t, node, count));
      const ProblemNode &first = problem.nodes[problem.ties[t].front()], &other = problem.nodes[node];
      if (first.costs.size() != other.costs.size())
        return problemError(fmt::format("tie {}: '{}' has {} strategies and '{}' has {}; tied nodes need as many", t,
                                        first.name, first.costs.size(), other.name, other.costs.size()));
    }
  for (const Pin &pin : problem.pins) {
    if (pin.node < 0 || pin.node >= count)
      return problemError(fmt::format("a pin names node {}, but there are {} nodes", pin.node, count));
    const ProblemNode &node = problem.nodes[pin.node];
    if (pin.strategy < 0 || pin.strategy >= static_cast<int>(node.costs.size()))
      return problemError(
          fmt::format("node '{}' is pinned to strategy {}, but its strategies are numbered from 0 to {}", node.name,
                      pin.strategy, node.costs.size() - 1));
  }
  return ok();
}

Status mismatch(std::string message) { return Error{"solution: " + std::move(message), ExitStatus::InternalCheck}; }

/// Checks constraints b. and c.; a violation of d. shows in the cost.
Status checkTiesAndPinsOf(const Problem &problem, const std::vector<int> &choice) {
  for (const std::vector<int> &tie : problem.ties)
    for (int node : tie)
      if (choice[node] != choice[tie.front()])
        return mismatch(fmt::format("tied nodes '{}' and '{}' take strategies {} and {}",
                                    problem.nodes[tie.front()].name, problem.nodes[node].name, choice[tie.front()],
                                    choice[node]));
  for (const Pin &pin : problem.pins)
    if (choice[pin.node] != pin.strategy)
      return mismatch(fmt::format("node '{}' is pinned to strategy {} but takes {}", problem.nodes[pin.node].name,
                                  pin.strategy, choice[pin.node]));
  return ok();
}

} // namespace

Status kerf::check(const Problem &problem) {
  if (Status status = checkNodes(problem); !status)
    return status;
  if (Status status = checkEdges(problem); !status)
    return status;
  if (Status status = checkUsages(problem); !status)
    return status;
  return checkTiesAndPins(problem);
}

std::string kerf::toString(TotalCost total) { return total >= kUnboundedTotal ? "inf" : fmt::format("{}", total); }

TotalCost kerf::costOf(const Problem &problem, const std::vector<int> &choice) {
  TotalCost total = 0;
  bool forbidden = false;
  auto add = [&](Cost cost) {
    total += cost;
    forbidden |= cost == kForbidden;
  };
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    add(problem.nodes[i].costs[choice[i]]);
  for (const ProblemEdge &edge : problem.edges)
    add(problem.costOf(edge, choice[edge.u], choice[edge.v]));
  return forbidden ? kUnboundedTotal : total;
}

Peak kerf::peakOf(const Problem &problem, const std::vector<int> &choice) {
  std::vector<std::pair<int64_t, int64_t>> changes; // (moment, bytes)
  for (const MemoryUsage &usage : problem.usages)
    for (const LiveInterval &live : usage.live)
      if (live.begin < live.end) {
        changes.emplace_back(live.begin, usage.bytes[choice[usage.node]]);
        changes.emplace_back(live.end, -usage.bytes[choice[usage.node]]);
      }
  std::sort(changes.begin(), changes.end()); // at one moment, ends (negative) sort before begins
  int64_t bytes = problem.constantBytes;
  Peak peak{bytes, std::nullopt};
  for (const auto &[moment, change] : changes) {
    bytes += change;
    if (bytes > peak.bytes)
      peak = {bytes, moment};
  }
  return peak;
}

int64_t kerf::peakBytesOf(const Problem &problem, const std::vector<int> &choice) {
  return peakOf(problem, choice).bytes;
}

int TableSet::add(std::span<const Cost> table) {
  uint64_t hash = table.size();
  for (Cost cost : table) // a multiplicative hash (Knuth, TAOCP 6.4)
    hash = (hash ^ static_cast<uint64_t>(cost)) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
  auto [begin, end] = byHash.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (std::equal(table.begin(), table.end(), tables[it->second].begin(), tables[it->second].end()))
      return it->second;
  int index = static_cast<int>(tables.size());
  tables.emplace_back(table.begin(), table.end());
  byHash.emplace(hash, index);
  return index;
}

Status kerf::verify(const Problem &problem, const Solution &solution) {
  if (solution.choice.empty() && !problem.nodes.empty()) {
    if (solution.feasible || solution.cost < kUnboundedTotal)
      return mismatch("it has no choice but is marked feasible or has a finite cost");
    return ok();
  }
  if (solution.choice.size() != problem.nodes.size())
    return mismatch(fmt::format("it has {} choices for {} nodes", solution.choice.size(), problem.nodes.size()));
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    if (solution.choice[i] < 0 || solution.choice[i] >= static_cast<int>(problem.nodes[i].costs.size()))
      return mismatch(fmt::format("node '{}' takes strategy {} of {}", problem.nodes[i].name, solution.choice[i],
                                  problem.nodes[i].costs.size()));
  if (Status status = checkTiesAndPinsOf(problem, solution.choice); !status)
    return status;
  TotalCost cost = costOf(problem, solution.choice);
  if (cost == kUnboundedTotal)
    return mismatch("it takes a forbidden strategy or pair");
  if (cost != solution.cost)
    return mismatch(
        fmt::format("it states a cost of {}; the choice costs {}", toString(solution.cost), toString(cost)));
  int64_t peak = peakBytesOf(problem, solution.choice);
  if (peak != solution.peakBytes)
    return mismatch(fmt::format("it states a peak of {} bytes; the choice takes {}", solution.peakBytes, peak));
  bool fits = !problem.memoryLimitBytes || peak <= *problem.memoryLimitBytes;
  if (fits != solution.feasible)
    return mismatch(fmt::format("it states feasible = {}; the peak is {} bytes", solution.feasible, peak));
  if (fits && solution.lowerBound > cost)
    return mismatch(
        fmt::format("its lower bound {} lies above the cost {}", toString(solution.lowerBound), toString(cost)));
  if (fits && solution.proven && solution.lowerBound != cost)
    return mismatch(fmt::format("it is marked proven, but its cost {} is above its lower bound {}", toString(cost),
                                toString(solution.lowerBound)));
  return ok();
}
