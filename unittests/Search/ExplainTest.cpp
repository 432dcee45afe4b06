// SPDX-License-Identifier: Apache-2.0
// Compares with enumeration: lower bounds of strategies that were not chosen, warm starts, and
// sweeps over memory limits.
#include "kerf/Search/Explain.h"
#include "RandomProblems.h"
#include "kerf/Search/Solver.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

Problem withMemory(unsigned seed) {
  std::mt19937 random(seed);
  return randomProblem({.maxNodes = 6, .forbiddenShare = 0.1, .memory = true, .ties = true}, random);
}

TEST(Explain, NoStrategyCostsLessThanIsSaid) {
  int dearer = 0, others = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = withMemory(seed);
    Result<Solution> solution = solve(problem);
    if (!solution->feasible)
      continue;
    SolutionExplanation explanation = explain(problem, *solution);
    for (size_t i = 0; i < problem.nodes.size(); ++i)
      for (int s = 0; s < problem.strategies(static_cast<int>(i)); ++s) {
        Problem pinned = problem;
        pinned.pins.push_back({static_cast<int>(i), s});
        EXPECT_LE(explanation.lowerBounds[i][s], bruteForce(pinned).cost) << "node " << i << ", strategy " << s;
        EXPECT_GE(explanation.lowerBounds[i][s], solution->lowerBound);
        dearer += explanation.lowerBounds[i][s] > solution->cost;
        others += s != solution->choice[i];
      }
  }
  EXPECT_GT(4 * dearer, others) << "it should say something about many";
}

TEST(Explain, MemoryThatBindsHasAPrice) {
  // Each of two nodes saves 10 cost units by taking 100 bytes; the limit leaves room for one.
  Problem problem;
  problem.nodes = {{"a", {20, 10}}, {"b", {20, 10}}};
  problem.usages = {{0, {{0, 2}}, {0, 100}}, {1, {{1, 3}}, {0, 100}}};
  problem.memoryLimitBytes = 150;
  Result<Solution> solution = solve(problem);
  EXPECT_EQ(solution->cost, 30);
  EXPECT_GT(explain(problem, *solution).costPerByte, 0);
  EXPECT_LE(explain(problem, *solution).costPerByte, 0.2); // 50 more bytes would save 10 cost units
  problem.memoryLimitBytes = 1000;
  EXPECT_EQ(explain(problem, *solve(problem)).costPerByte, 0);
}

TEST(Explain, ACostAboveAllOthersThatMustBePaid) {
  Problem problem;
  problem.nodes = {{"a", {1'000'000'000}}, {"b", {1, 3}}, {"c", {2, 5}}};
  Result<Solution> solution = solve(problem);
  EXPECT_EQ(solution->cost, 1'000'000'003);
  SolutionExplanation explanation = explain(problem, *solution);
  EXPECT_EQ(explanation.lowerBounds[1][1], 1'000'000'005);
  EXPECT_EQ(explanation.lowerBounds[2][1], 1'000'000'006);
}

TEST(Solver, StartsFromAnEarlierEnd) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = withMemory(seed);
    Result<Solution> before = solve(problem);
    std::mt19937 random(seed);
    for (ProblemNode &node : problem.nodes)
      for (Cost &cost : node.costs)
        if (cost != kForbidden)
          cost += random() % 10;
    *problem.memoryLimitBytes += static_cast<int64_t>(random() % 20) - 10;
    problem.memoryLimitBytes = std::max<int64_t>(*problem.memoryLimitBytes, 0);
    Result<Solution> after = solve(problem, {.previous = &*before});
    EXPECT_TRUE(verify(problem, *after)) << verify(problem, *after).error().message;
    EXPECT_TRUE(after->proven);
    EXPECT_EQ(after->cost, after->feasible ? bruteForce(problem).cost : after->cost);
    EXPECT_EQ(after->feasible, bruteForce(problem).cost < kUnboundedTotal);
    // A warm start from a different problem does no harm.
    Problem other = withMemory(seed + 1);
    Result<Solution> stranger = solve(other, {.previous = &*before});
    EXPECT_EQ(stranger->feasible, bruteForce(other).cost < kUnboundedTotal);
    if (stranger->feasible) {
      EXPECT_EQ(stranger->cost, bruteForce(other).cost);
    }
  }
}

TEST(Solver, SweepAnswersEveryLimit) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Problem problem = withMemory(seed);
    int64_t limit = *problem.memoryLimitBytes;
    std::vector<int64_t> limits = {limit, limit + 15, limit - limit / 4, limit + 40, limit, limit / 2};
    Result<std::vector<Solution>> solutions = sweep(problem, limits);
    ASSERT_TRUE(static_cast<bool>(solutions));
    for (size_t k = 0; k < limits.size(); ++k) {
      problem.memoryLimitBytes = limits[k];
      TotalCost best = bruteForce(problem).cost;
      const Solution &solution = (*solutions)[k];
      EXPECT_EQ(solution.feasible, best < kUnboundedTotal);
      EXPECT_TRUE(solution.proven);
      if (solution.feasible) {
        EXPECT_EQ(solution.cost, best);
        EXPECT_TRUE(verify(problem, solution));
      }
    }
  }
}

} // namespace
