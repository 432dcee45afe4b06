// SPDX-License-Identifier: Apache-2.0
// Joined cores against the enumeration of all choices.
#include "../../lib/Search/Join.h"
#include "Choices.h"
#include "RandomProblems.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::search;
using test::forEachChoice;

namespace {

Core coreOf(uint64_t seed) {
  std::mt19937 random{static_cast<unsigned>(seed)};
  test::Shape shape{.maxNodes = 8, .edgeShare = 0.8, .forbiddenShare = 0.1, .memory = true};
  return buildCore(test::randomProblem(shape, random), false).core;
}

std::vector<int64_t> bytesOfRows(const Core &core, const Labels &labels) {
  std::vector<int64_t> bytes(core.slack.size(), 0);
  for (int i = 0; i < core.size(); ++i)
    for (const CoreUsage &usage : core.usages[i])
      for (int row = usage.firstRow; row < usage.endRow; ++row)
        bytes[row] += usage.bytes[labels[i]];
  return bytes;
}

bool fits(const Core &core, const Labels &labels) {
  std::vector<int64_t> bytes = bytesOfRows(core, labels);
  for (size_t row = 0; row < bytes.size(); ++row)
    if (bytes[row] > core.slack[row])
      return false;
  return true;
}

double optimumOf(const Core &core) {
  double least = kInfinity;
  forEachChoice(core, [&](const Labels &labels) {
    if (!core.infeasible && fits(core, labels))
      least = std::min(least, costOf(core, labels));
  });
  return least;
}

int64_t countChoices(const Core &core) {
  int64_t allowed = 0;
  forEachChoice(core, [&](const Labels &labels) { allowed += costOf(core, labels) < kInfinity; });
  return allowed;
}

} // namespace

TEST(Join, KeepsEveryChoiceWithItsCostAndItsBytes) {
  int joins = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Core core = coreOf(seed);
    std::optional<Reduction> joined = joinPairs(core, 10'000);
    if (!joined || joined->core.infeasible)
      continue;
    ++joins;
    forEachChoice(joined->core, [&](const Labels &labels) {
      Labels before = joined->expand(labels);
      EXPECT_EQ(costOf(joined->core, labels), costOf(core, before));
      EXPECT_EQ(bytesOfRows(joined->core, labels), bytesOfRows(core, before));
      EXPECT_EQ(joined->project(before), labels);
    });
    EXPECT_EQ(countChoices(joined->core), countChoices(core));
    EXPECT_LT(joined->core.size(), core.size());
  }
  EXPECT_GT(joins, 100);
}

TEST(Join, KeepsWithinTheTableEntriesAllowed) {
  int joins = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Core core = coreOf(seed);
    std::optional<Reduction> joined = joinPairs(core, core.cells() + 20);
    if (!joined)
      continue;
    ++joins;
    EXPECT_LE(joined->core.cells(), core.cells() + 20);
  }
  EXPECT_GT(joins, 50);
}

TEST(Join, BoundsAreValidAndAnOptimalChoiceStaysPossible) {
  int closed = 0, open = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Core core = coreOf(seed);
    double optimum = optimumOf(core);
    SearchLimits limits;
    limits.hasIncumbent = seed % 3 != 0 && optimum < kInfinity;
    limits.cutoff = limits.hasIncumbent ? optimum + static_cast<double>(seed % 7) : largestSum(core) + 2;
    limits.leastCostStep = 1;
    limits.stepsLeft = seed % 2 == 0 ? 100'000'000 : static_cast<int64_t>(seed);
    double cutoff = limits.cutoff, found = kInfinity;
    std::vector<double> prices(core.slack.size(), 0.1);
    JoinedBound joined = boundByJoining(core, prices, limits, [&](const Labels &labels) {
      EXPECT_TRUE(fits(core, labels));
      found = costOf(core, labels);
      EXPECT_LT(found, limits.cutoff);
      limits.cutoff = found;
    });
    if (joined.bound == kInfinity) {
      ++closed;
      EXPECT_EQ(std::min(found, cutoff), std::min(optimum, cutoff));
      continue;
    }
    ++open;
    EXPECT_LE(joined.bound, optimum);
    if (optimum >= limits.cutoff)
      continue;
    for (int i = 0; i < core.size(); ++i)
      for (int s = 0; s < core.labels(i); ++s)
        if (!joined.possible[i][s])
          core.costs[i][s] = kInfinity;
    EXPECT_EQ(optimumOf(core), optimum);
  }
  EXPECT_GT(closed, 150);
  EXPECT_GT(open, 50);
}
