// SPDX-License-Identifier: Apache-2.0
// What a problem must look like, and what a choice costs: straight from the definition, apart from any solver.
#include "kerf/Search/Problem.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

using namespace kerf;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// All bytes that could ever be live together must be far from overflowing 64 bits.
constexpr __int128 kMaxTotalBytes = static_cast<__int128>(1) << 61;

Error problemError(std::string message) { return Error{"placement problem: " + std::move(message)}; }

bool isPrice(double seconds) { return seconds >= 0; } // false for NaN, true for +inf

Status checkNodes(const Problem &problem) {
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const ProblemNode &node = problem.nodes[i];
    if (node.seconds.empty())
      return problemError(fmt::format("node {} ('{}') has no strategy; every node needs at least one", i, node.name));
    for (size_t s = 0; s < node.seconds.size(); ++s)
      if (!isPrice(node.seconds[s]))
        return problemError(fmt::format("node {} ('{}'): strategy {} costs {} seconds; must be 0 or more", i, node.name,
                                        s, node.seconds[s]));
  }
  return ok();
}

Status checkEdges(const Problem &problem) {
  auto count = static_cast<int>(problem.nodes.size());
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    const ProblemEdge &edge = problem.edges[e];
    if (edge.u < 0 || edge.u >= count || edge.v < 0 || edge.v >= count)
      return problemError(
          fmt::format("edge {} joins nodes {} and {}, but there are {} nodes", e, edge.u, edge.v, count));
    if (edge.u == edge.v)
      return problemError(fmt::format("edge {} joins node {} ('{}') with itself; add its table to the node's seconds",
                                      e, edge.u, problem.nodes[edge.u].name));
    size_t cells = problem.nodes[edge.u].seconds.size() * problem.nodes[edge.v].seconds.size();
    if (edge.seconds.size() != cells)
      return problemError(
          fmt::format("edge {} ('{}' - '{}') has a table of {} entries; its nodes have {} x {} strategies", e,
                      problem.nodes[edge.u].name, problem.nodes[edge.v].name, edge.seconds.size(),
                      problem.nodes[edge.u].seconds.size(), problem.nodes[edge.v].seconds.size()));
    for (double seconds : edge.seconds)
      if (!isPrice(seconds))
        return problemError(fmt::format("edge {} ('{}' - '{}') has an entry of {} seconds; must be 0 or more", e,
                                        problem.nodes[edge.u].name, problem.nodes[edge.v].name, seconds));
  }
  return ok();
}

Status checkUsages(const Problem &problem) {
  auto count = static_cast<int>(problem.nodes.size());
  __int128 total = problem.constantBytes;
  if (problem.constantBytes < 0)
    return problemError(fmt::format("constantBytes is {}; must be 0 or more", problem.constantBytes));
  for (size_t i = 0; i < problem.usages.size(); ++i) {
    const MemoryUsage &usage = problem.usages[i];
    if (usage.node < 0 || usage.node >= count)
      return problemError(fmt::format("usage {} belongs to node {}, but there are {} nodes", i, usage.node, count));
    const ProblemNode &node = problem.nodes[usage.node];
    if (usage.bytes.size() != node.seconds.size())
      return problemError(fmt::format("usage {} of node '{}' has {} entries; the node has {} strategies", i, node.name,
                                      usage.bytes.size(), node.seconds.size()));
    for (int64_t bytes : usage.bytes)
      if (bytes < 0)
        return problemError(
            fmt::format("usage {} of node '{}' has an entry of {} bytes; must be 0 or more", i, node.name, bytes));
    for (const LiveInterval &live : usage.live)
      if (live.end < live.begin)
        return problemError(fmt::format("usage {} of node '{}' is live from {} to {}; it must not end before it begins",
                                        i, node.name, live.begin, live.end));
    total += static_cast<__int128>(*std::max_element(usage.bytes.begin(), usage.bytes.end())) * usage.live.size();
    if (total > kMaxTotalBytes)
      return problemError(fmt::format("the usages up to {} ('{}') sum to more than 2^61 bytes", i, node.name));
  }
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
      if (first.seconds.size() != other.seconds.size())
        return problemError(fmt::format("tie {}: '{}' has {} strategies and '{}' has {}; tied nodes need as many", t,
                                        first.name, first.seconds.size(), other.name, other.seconds.size()));
    }
  for (const Pin &pin : problem.pins) {
    if (pin.node < 0 || pin.node >= count)
      return problemError(fmt::format("a pin names node {}, but there are {} nodes", pin.node, count));
    const ProblemNode &node = problem.nodes[pin.node];
    if (pin.strategy < 0 || pin.strategy >= static_cast<int>(node.seconds.size()))
      return problemError(fmt::format("node '{}' is pinned to strategy {}, but it has {}", node.name, pin.strategy,
                                      node.seconds.size()));
  }
  return ok();
}

Status mismatch(std::string message) { return Error{"solution: " + std::move(message), ExitStatus::InternalCheck}; }

bool agree(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

/// Whether b. and c. hold; d. shows in the seconds.
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

double kerf::secondsOf(const Problem &problem, const std::vector<int> &choice) {
  double seconds = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    seconds += problem.nodes[i].seconds[choice[i]];
  for (const ProblemEdge &edge : problem.edges)
    seconds += edge.seconds[choice[edge.u] * problem.nodes[edge.v].seconds.size() + choice[edge.v]];
  return seconds;
}

int64_t kerf::peakBytesOf(const Problem &problem, const std::vector<int> &choice) {
  std::vector<std::pair<int64_t, int64_t>> changes; // (moment, bytes)
  for (const MemoryUsage &usage : problem.usages)
    for (const LiveInterval &live : usage.live)
      if (live.begin < live.end) {
        changes.emplace_back(live.begin, usage.bytes[choice[usage.node]]);
        changes.emplace_back(live.end, -usage.bytes[choice[usage.node]]);
      }
  std::sort(changes.begin(), changes.end()); // what ends at a moment sorts before what begins there
  int64_t bytes = problem.constantBytes, peak = bytes;
  for (const auto &[moment, change] : changes) {
    bytes += change;
    peak = std::max(peak, bytes);
  }
  return peak;
}

Status kerf::verify(const Problem &problem, const Solution &solution) {
  if (solution.choice.empty() && !problem.nodes.empty()) {
    if (solution.feasible || solution.seconds != kInfinity)
      return mismatch("no choice, and yet called feasible or of finite seconds");
    return ok();
  }
  if (solution.choice.size() != problem.nodes.size())
    return mismatch(fmt::format("{} choices for {} nodes", solution.choice.size(), problem.nodes.size()));
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    if (solution.choice[i] < 0 || solution.choice[i] >= static_cast<int>(problem.nodes[i].seconds.size()))
      return mismatch(fmt::format("node '{}' takes strategy {} of {}", problem.nodes[i].name, solution.choice[i],
                                  problem.nodes[i].seconds.size()));
  if (Status status = checkTiesAndPinsOf(problem, solution.choice); !status)
    return status;
  double seconds = secondsOf(problem, solution.choice);
  if (seconds == kInfinity)
    return mismatch("a forbidden strategy or pair is taken");
  if (!agree(seconds, solution.seconds))
    return mismatch(fmt::format("says {} seconds; the choice costs {}", solution.seconds, seconds));
  int64_t peak = peakBytesOf(problem, solution.choice);
  if (peak != solution.peakBytes)
    return mismatch(fmt::format("says {} bytes at the peak; the choice takes {}", solution.peakBytes, peak));
  bool fits = !problem.memoryLimitBytes || peak <= *problem.memoryLimitBytes;
  if (fits != solution.feasible)
    return mismatch(fmt::format("says feasible = {}; the peak is {} bytes", solution.feasible, peak));
  if (fits && solution.lowerBoundSeconds > seconds && !agree(solution.lowerBoundSeconds, seconds))
    return mismatch(fmt::format("lower bound {} lies above the cost {}", solution.lowerBoundSeconds, seconds));
  return ok();
}
