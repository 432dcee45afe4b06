// SPDX-License-Identifier: Apache-2.0
// Checks of malformed problems, verification of solutions, and the memory rows of a core.
#include "kerf/Search/Problem.h"
#include "../../lib/Search/Core.h"
#include <gtest/gtest.h>
#include <limits>

using namespace kerf;

namespace {

/// The worked example of docs/search.md.
Problem example() {
  Problem problem;
  problem.nodes = {{"product", {4, 2}}, {"norm", {1, 1}}};
  problem.edges = {{0, 1, 0}};
  problem.tables = {{0, 3, 3, 0}};
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

TEST(Problem, CostAndPeakOfAChoice) {
  Problem problem = example();
  EXPECT_EQ(costOf(problem, {1, 0}), 2 + 1 + 3);
  EXPECT_EQ(peakBytesOf(problem, {1, 0}), 110);
  EXPECT_EQ(peakBytesOf(problem, {1, 1}), 120);
  EXPECT_EQ(peakOf(problem, {1, 1}).moment, 1);
  problem.constantBytes = 5;
  EXPECT_EQ(peakBytesOf(problem, {1, 1}), 125);
  problem.usages.clear();
  EXPECT_EQ(peakOf(problem, {1, 1}).bytes, 5);
  EXPECT_EQ(peakOf(problem, {1, 1}).moment, std::nullopt);
}

TEST(Problem, SumsBeyond64BitsAreExact) {
  Problem problem;
  constexpr Cost kLarge = (Cost(1) << 60) + 1; // not exact in a double
  for (int i = 0; i < 40; ++i)
    problem.nodes.push_back({"n" + std::to_string(i), {kLarge + i, kMaxCost, kForbidden}});
  problem.tables = {{1, 2, 3, 4, kMaxCost, 5, 6, kForbidden, 7}};
  for (int i = 1; i < 40; ++i)
    problem.edges.push_back({i - 1, i, 0});
  ASSERT_TRUE(static_cast<bool>(check(problem)));
  Solution solution;
  solution.choice.assign(40, 0);
  solution.cost = TotalCost(kLarge) * 40 + 39 * 40 / 2 + 39;
  solution.feasible = true;
  EXPECT_EQ(costOf(problem, solution.choice), solution.cost);
  EXPECT_EQ(toString(solution.cost), "46116860184273879899"); // 40 (2^60 + 1) + 780 + 39
  EXPECT_TRUE(static_cast<bool>(verify(problem, solution)));
  solution.cost += 1;
  EXPECT_FALSE(static_cast<bool>(verify(problem, solution)));
  solution.choice.assign(40, 1);
  EXPECT_EQ(costOf(problem, solution.choice), TotalCost(kMaxCost) * 79);
  solution.choice[7] = 2; // a forbidden strategy
  EXPECT_EQ(costOf(problem, solution.choice), kUnboundedTotal);
  solution.choice.assign(40, 0);
  solution.choice[3] = 1;
  problem.tables[0][1] = kForbidden;
  EXPECT_EQ(costOf(problem, solution.choice), kUnboundedTotal);
  EXPECT_EQ(toString(kUnboundedTotal), "inf");
}

TEST(Problem, BytesMaySumBeyond61BitsWhereTheyNeverMeet) {
  constexpr int64_t kLarge = int64_t(1) << 60;
  Problem problem;
  problem.nodes = {{"n", {1}}};
  for (int64_t i = 0; i < 20; ++i)
    problem.usages.push_back({0, {{i, i + 2}}, {kLarge}}); // two at a time
  EXPECT_TRUE(static_cast<bool>(check(problem)));
  EXPECT_EQ(peakBytesOf(problem, {0}), 2 * kLarge);
  problem.constantBytes = 1;
  expectRefused(problem, "live at moment 1 can sum to 2305843009213693953 bytes");
}

TEST(TableSet, EqualContentIsStoredOnce) {
  std::vector<std::vector<Cost>> tables;
  TableSet set(tables);
  std::vector<Cost> a{1, 2, 3}, b{1, 2}, c{1, 2, 4};
  EXPECT_EQ(set.add(a), 0);
  EXPECT_EQ(set.add(b), 1);
  EXPECT_EQ(set.add(c), 2);
  EXPECT_EQ(set.add(std::vector<Cost>{1, 2}), 1);
  EXPECT_EQ(set.add(a), 0);
  EXPECT_EQ(tables, (std::vector<std::vector<Cost>>{a, b, c}));
}

TEST(Problem, BuffersThatMeetOnlyAtAnEndDoNotAddUp) {
  Problem problem = example();
  problem.usages[1].live = {{2, 3}};
  EXPECT_EQ(peakBytesOf(problem, {1, 1}), 100);
}

TEST(Problem, OverlappingIntervalsOfOneUsageAddUp) {
  Problem problem = example();
  problem.usages[0].live = {{0, 2}, {1, 4}, {2, 3}};
  EXPECT_EQ(peakBytesOf(problem, {0, 0}), 110); // at moment 1: two buffers of 50 bytes and the norm's 10
}

TEST(Problem, RefusesWhatIsMalformed) {
  Problem problem = example();
  problem.nodes[1].costs.clear();
  expectRefused(problem, "'norm') has no strategy");
  problem = example();
  problem.nodes[0].costs[1] = -1;
  expectRefused(problem, "strategy 1 costs -1");
  problem = example();
  problem.nodes[0].costs[1] = kMaxCost + 1;
  expectRefused(problem, "strategy 1 costs 4611686018427387905; must be 0 to 4611686018427387904");
  problem = example();
  problem.tables[0][2] = -7;
  expectRefused(problem, "table 0 has an entry of -7");
  problem = example();
  problem.edges[0].table = 1;
  expectRefused(problem, "has table 1, but there are 1 tables");
  problem = example();
  problem.edges[0].v = 7;
  expectRefused(problem, "joins nodes 0 and 7, but there are 2");
  problem = example();
  problem.edges[0].v = 0;
  expectRefused(problem, "with itself");
  problem = example();
  problem.tables[0].pop_back();
  expectRefused(problem, "table of 3 entries; its nodes have 2 x 2");
  problem = example();
  problem.usages[0].bytes.push_back(1);
  expectRefused(problem, "has 3 entries; the node has 2");
  problem = example();
  problem.usages[0].live[0] = {5, 4};
  expectRefused(problem, "live from 5 to 4");
  problem = example();
  problem.usages[0].bytes[0] = std::numeric_limits<int64_t>::max(); // with the norm's 20 bytes at moment 1
  expectRefused(problem, "more than 2^61");
  problem = example();
  problem.ties = {{0, 9}};
  expectRefused(problem, "names node 9");
  problem = example();
  problem.nodes[0].costs.push_back(1);
  problem.edges.clear();
  problem.usages.clear();
  problem.ties = {{0, 1}};
  expectRefused(problem, "'product' has 3 strategies and 'norm' has 2");
  problem = example();
  problem.pins = {{1, 2}};
  expectRefused(problem, "pinned to strategy 2, but its strategies are numbered from 0 to 1");
  problem = example();
  problem.memoryLimitBytes = -1;
  expectRefused(problem, "limit is -1");
}

TEST(Problem, VerifyFindsWhatIsWrong) {
  Problem problem = example();
  Solution right;
  right.choice = {1, 0}, right.cost = 6, right.lowerBound = 6, right.peakBytes = 110, right.feasible = true;
  EXPECT_TRUE(static_cast<bool>(verify(problem, right)));
  auto refused = [&](const Solution &wrong) {
    Status status = verify(problem, wrong);
    return !status && status.error().status == ExitStatus::InternalCheck;
  };
  Solution wrong = right;
  wrong.cost = 5;
  EXPECT_TRUE(refused(wrong));
  wrong = right;
  wrong.peakBytes = 100;
  EXPECT_TRUE(refused(wrong));
  wrong = right;
  wrong.lowerBound = 7;
  EXPECT_TRUE(refused(wrong));
  wrong.lowerBound = 5;
  EXPECT_FALSE(refused(wrong));
  wrong.proven = true;
  EXPECT_TRUE(refused(wrong)) << "proven, and yet a gap";
  wrong = right;
  wrong.choice = {1, 1}, wrong.cost = 3, wrong.lowerBound = 3, wrong.peakBytes = 120;
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
  problem.tables[0][2] = kForbidden;
  EXPECT_TRUE(refused(right));
}

TEST(Core, HasOneRowForEachMaximalLiveSet) {
  // a: ======   b:   ====   c:       ==   d: two buffers, then one
  Problem problem;
  problem.nodes = {{"a", {0}}, {"b", {0}}, {"c", {0}}, {"d", {0}}};
  problem.usages = {{0, {{0, 6}}, {1}}, {1, {{2, 6}}, {1}}, {2, {{6, 8}}, {1}}, {3, {{1, 4}, {3, 7}}, {1}}};
  problem.memoryLimitBytes = 10;
  EXPECT_EQ(search::buildCore(problem, true).core.moment, (std::vector<int64_t>{3, 6}));
  problem.usages = {{0, {{3, 3}}, {1}}}; // empty intervals need no row
  EXPECT_TRUE(search::buildCore(problem, true).core.moment.empty());
}

TEST(Core, LeavesOutWhatCostsMoreThanAllElseTogether) {
  Problem problem;
  problem.nodes = {{"a", {5, 1'000'000}}, {"b", {7, 9}}};
  search::BuiltCore built = search::buildCore(problem, true);
  EXPECT_TRUE(built.hugeLeftOut);
  EXPECT_EQ(built.core.costs[0][1], search::kInfinity);
  EXPECT_EQ(built.offset, 12);
  EXPECT_FALSE(search::buildCore(problem, false).hugeLeftOut);
}
