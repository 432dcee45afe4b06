// SPDX-License-Identifier: Apache-2.0
// The solver against brute force on random small problems of every kind, and its speed on large ones.
#include "kerf/Search/Solver.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace kerf;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct BruteForce {
  double seconds = kInfinity;                              // the optimum
  int64_t leastPeak = std::numeric_limits<int64_t>::max(); // over all choices that meet a.-d.
};

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

BruteForce bruteForce(const Problem &problem) {
  BruteForce best;
  std::vector<int> choice(problem.nodes.size(), 0);
  while (true) {
    double seconds = keepsTiesAndPins(problem, choice) ? secondsOf(problem, choice) : kInfinity;
    if (!std::isinf(seconds)) {
      int64_t peak = peakBytesOf(problem, choice);
      best.leastPeak = std::min(best.leastPeak, peak);
      if (!problem.memoryLimitBytes || peak <= *problem.memoryLimitBytes)
        best.seconds = std::min(best.seconds, seconds);
    }
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == static_cast<int>(problem.nodes[i].seconds.size()))
      choice[i++] = 0;
    if (i == choice.size())
      return best;
  }
}

struct Shape {
  int maxNodes = 7, maxStrategies = 4, valueRange = 50;
  double edgeShare = 0.4, forbiddenShare = 0.0;
  bool memory = false, ties = false, pins = false;
};

Problem randomProblem(const Shape &shape, std::mt19937 &random) {
  auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  auto chance = [&](double share) { return random() % 1000 < share * 1000; };
  Problem problem;
  int nodes = 1 + below(shape.maxNodes);
  int common = 1 + below(shape.maxStrategies); // tied nodes need equal numbers
  for (int i = 0; i < nodes; ++i) {
    int strategies = chance(0.6) ? common : 1 + below(shape.maxStrategies);
    ProblemNode node{"n" + std::to_string(i), {}};
    for (int s = 0; s < strategies; ++s)
      node.seconds.push_back(chance(shape.forbiddenShare / 2) ? kInfinity : below(shape.valueRange));
    problem.nodes.push_back(std::move(node));
  }
  for (int u = 0; u < nodes; ++u)
    for (int v = 0; v < nodes; ++v) {
      if (u == v || !chance(shape.edgeShare / 2))
        continue;
      ProblemEdge edge{u, v, {}};
      size_t cells = problem.nodes[u].seconds.size() * problem.nodes[v].seconds.size();
      for (size_t c = 0; c < cells; ++c)
        edge.seconds.push_back(chance(shape.forbiddenShare) ? kInfinity : below(shape.valueRange));
      problem.edges.push_back(std::move(edge));
    }
  if (shape.ties)
    for (int t = 0; t < 2; ++t) {
      std::vector<int> tie;
      for (int i = 0; i < nodes; ++i)
        if (static_cast<int>(problem.nodes[i].seconds.size()) == common && chance(0.4))
          tie.push_back(i);
      problem.ties.push_back(tie);
    }
  if (shape.pins && chance(0.7)) {
    int node = below(nodes);
    problem.pins.push_back({node, below(static_cast<int>(problem.nodes[node].seconds.size()))});
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
    for (size_t s = 0; s < problem.nodes[usage.node].seconds.size(); ++s)
      usage.bytes.push_back(below(30));
    problem.usages.push_back(std::move(usage));
  }
  problem.constantBytes = below(10);
  // Around the peaks of random choices: often binding, now and then impossible.
  std::vector<int> choice;
  for (const ProblemNode &node : problem.nodes)
    choice.push_back(below(static_cast<int>(node.seconds.size())));
  problem.memoryLimitBytes = std::max<int64_t>(0, peakBytesOf(problem, choice) - below(15));
  return problem;
}

void expectEqualsBruteForce(const Problem &problem, const SolveOptions &options = {}) {
  BruteForce best = bruteForce(problem);
  Result<Solution> solved = solve(problem, options);
  ASSERT_TRUE(static_cast<bool>(solved)) << solved.error().message;
  const Solution &solution = *solved;
  Status status = verify(problem, solution);
  EXPECT_TRUE(static_cast<bool>(status)) << status.error().message;
  EXPECT_TRUE(solution.proven);
  EXPECT_EQ(solution.feasible, !std::isinf(best.seconds));
  if (solution.feasible) {
    EXPECT_NEAR(solution.seconds, best.seconds, 1e-9 * best.seconds);
    EXPECT_NEAR(solution.lowerBoundSeconds, best.seconds, 1e-9 * best.seconds);
    return;
  }
  EXPECT_EQ(solution.lowerBoundSeconds, kInfinity);
  bool existsWithoutMemory = best.leastPeak != std::numeric_limits<int64_t>::max();
  EXPECT_EQ(!solution.choice.empty(), existsWithoutMemory && !problem.nodes.empty());
  if (existsWithoutMemory) {
    EXPECT_EQ(solution.leastPeakBytes, best.leastPeak);
    EXPECT_TRUE(solution.leastPeakProven);
  }
}

void sweep(const Shape &shape, unsigned seeds) {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    expectEqualsBruteForce(randomProblem(shape, random));
    if (testing::Test::HasFailure())
      return;
  }
}

/// A transformer's train step in outline: a forward and a backward chain of `layers` x 10 ops, each backward op tied by
/// an edge to its forward op, skips over the blocks, strategies as splits of a 2-D mesh, activations alive from forward
/// to backward.
Problem ladder(int layers, int strategies, unsigned seed) {
  std::mt19937 random(seed);
  auto uniform = [&] { return static_cast<double>(random() % 1000) / 1000; };
  Problem problem;
  int half = layers * 10;
  auto edge = [&](int u, int v, double scale) {
    ProblemEdge e{u, v, {}};
    for (int a = 0; a < strategies; ++a)
      for (int b = 0; b < strategies; ++b)
        e.seconds.push_back(a % 6 == b % 6 ? 0 : scale * (0.5 + uniform()));
    problem.edges.push_back(std::move(e));
  };
  for (int i = 0; i < 2 * half; ++i) {
    ProblemNode node{"op" + std::to_string(i), {}};
    for (int s = 0; s < strategies; ++s)
      node.seconds.push_back(1 + 3 * uniform());
    problem.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < half; ++i) {
    int backward = 2 * half - 1 - i;
    if (i > 0)
      edge(i - 1, i, 1), edge(backward + 1, backward, 1), edge(i - 1, backward, 0.5);
    if (i % 5 == 4)
      edge(i - 4, i, 1), edge(backward + 4, backward, 1);
    if (i % 10 == 3)
      edge(i - 2, i, 1), edge(i - 2, backward, 0.3);
    MemoryUsage activation{i, {{i, backward + 1}}, {}};
    for (int s = 0; s < strategies; ++s)
      activation.bytes.push_back(static_cast<int64_t>(1000 + random() % 9000) / (1 + s % 4));
    problem.usages.push_back(std::move(activation));
  }
  edge(half - 1, half, 1);
  return problem;
}

} // namespace

TEST(Solver, TheWorkedExample) {
  Problem problem;
  problem.nodes = {{"product", {4, 2}}, {"norm", {1, 1}}};
  problem.edges = {{0, 1, {0, 3, 3, 0}}};
  problem.usages = {{0, {{0, 2}}, {50, 100}}, {1, {{1, 3}}, {10, 20}}};
  EXPECT_EQ(solve(problem)->choice, (std::vector<int>{1, 1})); // 3 seconds, 120 bytes
  problem.memoryLimitBytes = 119;
  EXPECT_EQ(solve(problem)->choice, (std::vector<int>{0, 0})); // 5 seconds, 60 bytes
  problem.memoryLimitBytes = 59;
  Result<Solution> none = solve(problem);
  EXPECT_FALSE(none->feasible);
  EXPECT_TRUE(none->proven);
  EXPECT_EQ(none->leastPeakBytes, 60);
}

TEST(Solver, EmptyProblem) {
  Result<Solution> solution = solve(Problem{});
  ASSERT_TRUE(static_cast<bool>(solution));
  EXPECT_TRUE(solution->feasible);
  EXPECT_EQ(solution->seconds, 0);
}

TEST(Solver, ConstantBytesAloneCanExceedTheLimit) {
  Problem problem;
  problem.nodes = {{"n", {1, 2}}};
  problem.constantBytes = 10;
  problem.memoryLimitBytes = 9;
  Result<Solution> solution = solve(problem);
  EXPECT_FALSE(solution->feasible);
  EXPECT_EQ(solution->leastPeakBytes, 10);
}

TEST(Solver, RefusesAMalformedProblem) {
  Problem problem;
  problem.nodes = {{"n", {}}};
  EXPECT_FALSE(static_cast<bool>(solve(problem)));
}

TEST(Solver, EqualsBruteForceWithoutMemory) { sweep({}, 300); }
TEST(Solver, EqualsBruteForceDense) { sweep({.maxNodes = 7, .edgeShare = 1.0, .forbiddenShare = 0.1}, 200); }
TEST(Solver, EqualsBruteForceWithForbiddenPairs) { sweep({.forbiddenShare = 0.45}, 300); }
TEST(Solver, EqualsBruteForceWithTiesAndPins) { sweep({.forbiddenShare = 0.1, .ties = true, .pins = true}, 300); }
TEST(Solver, EqualsBruteForceWithMemory) { sweep({.memory = true}, 500); }
TEST(Solver, EqualsBruteForceWithMemoryAndNoEdges) { sweep({.maxNodes = 8, .edgeShare = 0, .memory = true}, 200); }
TEST(Solver, EqualsBruteForceWithEverything) {
  sweep({.edgeShare = 0.6, .forbiddenShare = 0.25, .memory = true, .ties = true, .pins = true}, 500);
}
TEST(Solver, EqualsBruteForceWhenManyCostsAreEqual) { sweep({.valueRange = 2, .memory = true, .ties = true}, 300); }

TEST(Solver, RunnerUpEqualsBruteForce) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Problem problem = randomProblem({.maxNodes = 6, .memory = true, .ties = true, .pins = true}, random);
    Result<Solution> solution = solve(problem);
    if (!solution->feasible)
      continue;
    for (int node = 0; node < static_cast<int>(problem.nodes.size()); ++node) {
      Problem without = problem;
      without.nodes[node].seconds[solution->choice[node]] = kInfinity;
      Result<Solution> runnerUp = solveExcluding(problem, *solution, node);
      ASSERT_TRUE(static_cast<bool>(runnerUp));
      BruteForce best = bruteForce(without);
      EXPECT_EQ(runnerUp->feasible, !std::isinf(best.seconds));
      if (runnerUp->feasible) {
        EXPECT_NEAR(runnerUp->seconds, best.seconds, 1e-9 * best.seconds);
        EXPECT_GE(runnerUp->seconds, solution->seconds - 1e-9);
        EXPECT_NE(runnerUp->choice[node], solution->choice[node]);
      }
    }
  }
}

TEST(Solver, TheBudgetEndsItWithAValidAnswer) {
  Problem problem = ladder(4, 12, 5);
  problem.memoryLimitBytes = 60'000;
  for (int64_t budget : {0, 1000, 1'000'000}) {
    Result<Solution> solution = solve(problem, {.workBudget = budget});
    ASSERT_TRUE(static_cast<bool>(solution));
    Status status = verify(problem, *solution);
    EXPECT_TRUE(static_cast<bool>(status)) << status.error().message;
  }
}

TEST(Solver, LargeLaddersAreCloseAndDeterministic) {
  for (auto [layers, strategies] : {std::pair{12, 12}, {2, 40}}) { // 240 and 40 nodes
    Problem problem = ladder(layers, strategies, 7);
    Result<Solution> free = solve(problem);
    ASSERT_TRUE(free->feasible);
    EXPECT_LE(free->seconds, free->lowerBoundSeconds * 1.001);
    problem.memoryLimitBytes = free->peakBytes * 8 / 10;
    Result<Solution> tight = solve(problem);
    ASSERT_TRUE(tight->feasible);
    EXPECT_TRUE(static_cast<bool>(verify(problem, *tight)));
    EXPECT_LE(tight->seconds, tight->lowerBoundSeconds * 1.01);
    EXPECT_GE(tight->seconds, free->lowerBoundSeconds * (1 - 1e-9));
    EXPECT_EQ(solve(problem)->choice, tight->choice);
  }
}
