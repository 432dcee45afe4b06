// SPDX-License-Identifier: Apache-2.0
// Compares the solver with brute force on random small problems, and checks its speed on large ones.
#include "kerf/Search/Solver.h"
#include "RandomProblems.h"
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace kerf;
using namespace kerf::test;

namespace {

void expectEqualsBruteForce(const Problem &problem, const SolveOptions &options = {}) {
  BruteForce best = bruteForce(problem);
  Result<Solution> solved = solve(problem, options);
  ASSERT_TRUE(static_cast<bool>(solved)) << solved.error().message;
  const Solution &solution = *solved;
  Status status = verify(problem, solution);
  EXPECT_TRUE(static_cast<bool>(status)) << status.error().message;
  EXPECT_TRUE(solution.proven);
  EXPECT_EQ(solution.feasible, best.cost < kUnboundedTotal);
  if (solution.feasible) {
    EXPECT_EQ(solution.cost, best.cost);
    EXPECT_EQ(solution.lowerBound, best.cost);
    return;
  }
  EXPECT_EQ(solution.lowerBound, kUnboundedTotal);
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

/// Returns a problem shaped like a transformer's training step: a forward and a backward chain of `layers` x 10 ops, an
/// edge from each backward op to its forward op, residual connections, strategies as splits of a 2-D mesh, and
/// activations that live from the forward to the backward op.
Problem ladder(int layers, int strategies, unsigned seed) {
  std::mt19937 random(seed);
  auto thousandths = [&] { return static_cast<Cost>(random() % 1000); };
  Problem problem;
  TableSet tables(problem.tables);
  int half = layers * 10;
  auto edge = [&](int u, int v, int percent) {
    std::vector<Cost> table;
    for (int a = 0; a < strategies; ++a)
      for (int b = 0; b < strategies; ++b)
        table.push_back(a % 6 == b % 6 ? 0 : percent * (500 + thousandths()) / 100);
    problem.edges.push_back({u, v, tables.add(table)});
  };
  for (int i = 0; i < 2 * half; ++i) {
    ProblemNode node{"op" + std::to_string(i), {}};
    for (int s = 0; s < strategies; ++s)
      node.costs.push_back(1000 + 3 * thousandths());
    problem.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < half; ++i) {
    int backward = 2 * half - 1 - i;
    if (i > 0)
      edge(i - 1, i, 100), edge(backward + 1, backward, 100), edge(i - 1, backward, 50);
    if (i % 5 == 4)
      edge(i - 4, i, 100), edge(backward + 4, backward, 100);
    if (i % 10 == 3)
      edge(i - 2, i, 100), edge(i - 2, backward, 30);
    MemoryUsage activation{i, {{i, backward + 1}}, {}};
    for (int s = 0; s < strategies; ++s)
      activation.bytes.push_back(static_cast<int64_t>(1000 + random() % 9000) / (1 + s % 4));
    problem.usages.push_back(std::move(activation));
  }
  edge(half - 1, half, 100);
  return problem;
}

} // namespace

TEST(Solver, TheWorkedExample) {
  Problem problem;
  problem.nodes = {{"product", {4, 2}}, {"norm", {1, 1}}};
  problem.edges = {{0, 1, 0}};
  problem.tables = {{0, 3, 3, 0}};
  problem.usages = {{0, {{0, 2}}, {50, 100}}, {1, {{1, 3}}, {10, 20}}};
  EXPECT_EQ(solve(problem)->choice, (std::vector<int>{1, 1})); // cost 3, 120 bytes
  problem.memoryLimitBytes = 119;
  EXPECT_EQ(solve(problem)->choice, (std::vector<int>{0, 0})); // cost 5, 60 bytes
  problem.memoryLimitBytes = 59;
  Result<Solution> none = solve(problem);
  EXPECT_FALSE(none->feasible);
  EXPECT_TRUE(none->proven);
  EXPECT_EQ(none->leastPeakBytes, 60);
  // The same with large sizes, between which the bisection has many steps.
  for (MemoryUsage &usage : problem.usages)
    for (int64_t &bytes : usage.bytes)
      bytes *= 1'000'000'007;
  none = solve(problem);
  EXPECT_TRUE(none->proven);
  EXPECT_EQ(none->leastPeakBytes, 60'000'000'420);
  EXPECT_TRUE(none->leastPeakProven);
}

TEST(Solver, EmptyProblem) {
  Result<Solution> solution = solve(Problem{});
  ASSERT_TRUE(static_cast<bool>(solution));
  EXPECT_TRUE(solution->feasible);
  EXPECT_EQ(solution->cost, 0);
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

TEST(Solver, OptionsAtFaultAreRefused) {
  Problem problem;
  problem.nodes = {{"a", {1, 2}}, {"b", {3}}};
  auto refused = [&](const SolveOptions &options, const std::string &words) {
    Result<Solution> solution = solve(problem, options);
    ASSERT_FALSE(static_cast<bool>(solution));
    EXPECT_NE(solution.error().message.find(words), std::string::npos) << solution.error().message;
  };
  refused({.threads = 0}, "0 threads");
  refused({.seconds = -1.0}, "-1 seconds");
  refused({.seconds = std::numeric_limits<double>::quiet_NaN()}, "nan seconds");
  refused({.start = {0}}, "has 1 strategies; the problem has 2 nodes");
  refused({.start = {2, 0}}, "node 0 ('a') strategy 2; its strategies are 0 to 1");
  refused({.start = {0, -1}}, "node 1 ('b') strategy -1; its strategies are 0 to 0");
}

TEST(Solver, ProgressEndsWithWhatIsReturned) {
  Problem problem;
  problem.nodes = {{"a", {5, 2}}, {"b", {3, 4}}};
  problem.edges = {{0, 1, 0}};
  problem.tables = {{0, 9, 9, 0}};
  std::vector<Progress> reports;
  auto note = [&](const Progress &progress) { reports.push_back(progress); };
  Result<Solution> solution = solve(problem, {.seconds = 1.0}, note);
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.back().cost, TotalCost(6));
  EXPECT_EQ(reports.back().lowerBound, 6);
  problem.usages = {{0, {{0, 1}}, {10, 10}}};
  problem.memoryLimitBytes = 9;
  solution = solve(problem, {}, note);
  EXPECT_FALSE(solution->feasible);
  EXPECT_EQ(reports.back().cost, std::nullopt);
  EXPECT_EQ(reports.back().lowerBound, kUnboundedTotal);
  for (size_t i = 1; i + 1 < reports.size(); ++i)
    EXPECT_GE(reports[i].seconds, 0);
}

TEST(Solver, AStartThatFitsIsNeverLost) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = ladder(2, 8, seed);
    Result<Solution> good = solve(problem);
    ASSERT_TRUE(good->feasible);
    problem.memoryLimitBytes = good->peakBytes;
    Result<Solution> from = solve(problem, {.workBudget = 0, .start = good->choice});
    ASSERT_TRUE(static_cast<bool>(from));
    EXPECT_TRUE(static_cast<bool>(verify(problem, *from)));
    EXPECT_TRUE(from->feasible);
    EXPECT_LE(from->cost, good->cost);
    problem.pins = {{0, 1 - std::min(1, good->choice[0])}}; // the start now violates a pin
    from = solve(problem, {.start = good->choice});
    ASSERT_TRUE(static_cast<bool>(from));
    EXPECT_TRUE(static_cast<bool>(verify(problem, *from)));
  }
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
      without.nodes[node].costs[solution->choice[node]] = kForbidden;
      Result<Solution> runnerUp = solveExcluding(problem, *solution, node);
      ASSERT_TRUE(static_cast<bool>(runnerUp));
      BruteForce best = bruteForce(without);
      EXPECT_EQ(runnerUp->feasible, best.cost < kUnboundedTotal);
      if (runnerUp->feasible) {
        EXPECT_EQ(runnerUp->cost, best.cost);
        EXPECT_GE(runnerUp->cost, solution->cost);
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
    EXPECT_LE(free->cost * 1000, free->lowerBound * 1001);
    problem.memoryLimitBytes = free->peakBytes * 8 / 10;
    Result<Solution> tight = solve(problem);
    ASSERT_TRUE(tight->feasible);
    EXPECT_TRUE(static_cast<bool>(verify(problem, *tight)));
    EXPECT_LE(tight->cost * 100, tight->lowerBound * 101);
    EXPECT_GE(tight->cost, free->lowerBound);
    EXPECT_EQ(solve(problem)->choice, tight->choice);
  }
}
