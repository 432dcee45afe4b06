// SPDX-License-Identifier: Apache-2.0
// What a problem must look like, what verify finds, and the maximal live sets.
#include "kerf/Search/Problem.h"
#include "../../lib/Search/MemoryRows.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace kerf;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The worked example of docs/search.md.
Problem example() {
  Problem problem;
  problem.nodes = {{"product", {4, 2}}, {"norm", {1, 1}}};
  problem.edges = {{0, 1, {0, 3, 3, 0}}};
  problem.usages = {{0, {{0, 2}}, {50, 100}}, {1, {{1, 3}}, {10, 20}}};
  problem.memoryLimitBytes = 110;
  return problem;
}

void expectRefused(const Problem &problem, const std::string &words) {
  Status status = check(problem);
  ASSERT_FALSE(static_cast<bool>(status));
  EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
  EXPECT_EQ(status.error().status, ExitStatus::BadInput);
}

} // namespace

TEST(Problem, AcceptsTheExample) { EXPECT_TRUE(static_cast<bool>(check(example()))); }

TEST(Problem, SecondsAndPeakOfAChoice) {
  Problem problem = example();
  EXPECT_EQ(secondsOf(problem, {1, 0}), 2 + 1 + 3);
  EXPECT_EQ(peakBytesOf(problem, {1, 0}), 110);
  EXPECT_EQ(peakBytesOf(problem, {1, 1}), 120);
  problem.constantBytes = 5;
  EXPECT_EQ(peakBytesOf(problem, {1, 1}), 125);
}

TEST(Problem, BuffersThatMeetOnlyAtAnEndDoNotAddUp) {
  Problem problem = example();
  problem.usages[1].live = {{2, 3}};
  EXPECT_EQ(peakBytesOf(problem, {1, 1}), 100);
}

TEST(Problem, OverlappingIntervalsOfOneUsageAddUp) {
  Problem problem = example();
  problem.usages[0].live = {{0, 2}, {1, 4}, {2, 3}};
  EXPECT_EQ(peakBytesOf(problem, {0, 0}), 110); // at 1: two of 50 and the norm's 10
}

TEST(Problem, RefusesWhatIsMalformed) {
  Problem problem = example();
  problem.nodes[1].seconds.clear();
  expectRefused(problem, "'norm') has no strategy");
  problem = example();
  problem.nodes[0].seconds[1] = -1;
  expectRefused(problem, "strategy 1 costs -1");
  problem = example();
  problem.nodes[0].seconds[1] = std::nan("");
  expectRefused(problem, "strategy 1 costs nan");
  problem = example();
  problem.edges[0].v = 7;
  expectRefused(problem, "joins nodes 0 and 7, but there are 2");
  problem = example();
  problem.edges[0].v = 0;
  expectRefused(problem, "with itself");
  problem = example();
  problem.edges[0].seconds.pop_back();
  expectRefused(problem, "table of 3 entries; its nodes have 2 x 2");
  problem = example();
  problem.usages[0].bytes.push_back(1);
  expectRefused(problem, "has 3 entries; the node has 2");
  problem = example();
  problem.usages[0].live[0] = {5, 4};
  expectRefused(problem, "live from 5 to 4");
  problem = example();
  problem.usages[0].bytes[0] = std::numeric_limits<int64_t>::max();
  expectRefused(problem, "more than 2^61");
  problem = example();
  problem.ties = {{0, 9}};
  expectRefused(problem, "names node 9");
  problem = example();
  problem.nodes[0].seconds.push_back(1);
  problem.edges.clear();
  problem.usages.clear();
  problem.ties = {{0, 1}};
  expectRefused(problem, "'product' has 3 strategies and 'norm' has 2");
  problem = example();
  problem.pins = {{1, 2}};
  expectRefused(problem, "pinned to strategy 2, but it has 2");
  problem = example();
  problem.memoryLimitBytes = -1;
  expectRefused(problem, "limit is -1");
}

TEST(Problem, VerifyFindsWhatIsWrong) {
  Problem problem = example();
  Solution right;
  right.choice = {1, 0}, right.seconds = 6, right.lowerBoundSeconds = 6, right.peakBytes = 110, right.feasible = true;
  EXPECT_TRUE(static_cast<bool>(verify(problem, right)));
  auto refused = [&](const Solution &wrong) {
    Status status = verify(problem, wrong);
    return !status && status.error().status == ExitStatus::InternalCheck;
  };
  Solution wrong = right;
  wrong.seconds = 5;
  EXPECT_TRUE(refused(wrong));
  wrong = right;
  wrong.peakBytes = 100;
  EXPECT_TRUE(refused(wrong));
  wrong = right;
  wrong.lowerBoundSeconds = 7;
  EXPECT_TRUE(refused(wrong));
  wrong = right;
  wrong.choice = {1, 1}, wrong.seconds = 3, wrong.lowerBoundSeconds = 3, wrong.peakBytes = 120;
  EXPECT_TRUE(refused(wrong)) << "above the limit and called feasible";
  wrong = right;
  wrong.choice = {2, 0};
  EXPECT_TRUE(refused(wrong));
  problem.pins = {{1, 1}};
  EXPECT_TRUE(refused(right));
  problem.pins.clear();
  problem.ties = {{0, 1}};
  EXPECT_TRUE(refused(right));
  problem.ties.clear();
  problem.edges[0].seconds[2] = kInfinity;
  EXPECT_TRUE(refused(right));
}

TEST(MemoryRows, OnlyMaximalLiveSetsRemain) {
  using search::LiveSet;
  // a: ======   b:   ====   c:       ==   d: two buffers, then one
  std::vector<MemoryUsage> usages = {
      {0, {{0, 6}}, {1}}, {1, {{2, 6}}, {1}}, {2, {{6, 8}}, {1}}, {3, {{1, 4}, {3, 7}}, {1}}};
  std::vector<LiveSet> sets = search::maximalLiveSets(usages);
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0], (LiveSet{{0, 1}, {1, 1}, {3, 2}}));
  EXPECT_EQ(sets[1], (LiveSet{{2, 1}, {3, 1}}));
}

TEST(MemoryRows, EmptyIntervalsDoNotCount) { EXPECT_TRUE(search::maximalLiveSets({{0, {{3, 3}}, {1}}}).empty()); }
