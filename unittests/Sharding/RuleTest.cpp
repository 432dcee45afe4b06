// SPDX-License-Identifier: Apache-2.0
// Worked examples of sharding rules: projected strategies, enumerated strategies, and printed rules.
#include "kerf/Sharding/Rule.h"
#include "Simulation.h"

#include <gtest/gtest.h>

using namespace kerf;
using kerf::simulation::kMesh;

namespace {

Factor cuttable(std::string name, int64_t size, FactorKind kind = FactorKind::Cuttable) {
  Factor factor;
  factor.name = std::move(name);
  factor.size = size;
  factor.kind = kind;
  return factor;
}

/// Returns the rule ([b, m, k], [b, k, n]) -> ([b, m, n]).
Rule dotRule(int64_t b, int64_t m, int64_t k, int64_t n) {
  return {{cuttable("b", b), cuttable("m", m), cuttable("k", k), cuttable("n", n)},
          {{{0}, {1}, {2}}, {{0}, {2}, {3}}},
          {{{0}, {1}, {3}}}};
}

/// Returns the shardings of the strategy as "operand operand -> result", or "-" if the strategy is impossible.
std::string projected(const Rule &rule, const std::vector<Shape> &operands, const std::vector<Shape> &results,
                      std::vector<int> factorOfAxis) {
  std::optional<OpSharding> op = project(rule, kMesh, {std::move(factorOfAxis)});
  if (!op)
    return "-";
  std::string text;
  for (size_t i = 0; i < operands.size(); ++i)
    text += toString(kMesh, operands[i], op->operands[i]) + " ";
  text += "->";
  for (size_t i = 0; i < results.size(); ++i)
    text += " " + toString(kMesh, results[i], op->results[i]);
  return text;
}

std::string reshape(const Shape &from, const Shape &to) { return toString(reshapeRule(from, to)); }

std::string complaint(const Rule &rule, std::vector<Shape> operands, std::vector<Shape> results) {
  const Status status = checkRule(rule, operands, results);
  return status ? "" : status.error().message;
}

} // namespace

TEST(Rule, Prints) {
  EXPECT_EQ(toString(dotRule(2, 8, 6, 4)), "([b, m, k], [b, k, n]) -> ([b, m, n])  k: reduction(sum)");
  EXPECT_EQ(toString(elementwiseRule({3, 4}, 2, 1, {{0, 1}})),
            "([i, j], [i, j]) -> ([i, j])  sum0: partial(0, 1) -> (0)");
  Rule softmax{{cuttable("b", 8), cuttable("v", 10, FactorKind::Decomposed)}, {{{0}, {1}}}, {{{0}, {1}}}};
  EXPECT_EQ(toString(softmax), "([b, v]) -> ([b, v])  v: decomposed");
}

TEST(Rule, ReshapeRefinesBothShapes) {
  EXPECT_EQ(reshape({8, 4}, {2, 16}), "([ij, k]) -> ([i, jk])  i=2, j=4, k=4");
  EXPECT_EQ(reshape({6, 5}, {6, 5}), "([i, j]) -> ([i, j])");
  EXPECT_EQ(reshape({6, 5}, {30}), "([i, j]) -> ([ij])  i=6, j=5");
  EXPECT_EQ(reshape({30}, {5, 6}), "([ij]) -> ([i, j])  i=5, j=6");
  EXPECT_EQ(reshape({1, 8, 1}, {8}), "([1, i, 1]) -> ([i])");
  EXPECT_EQ(reshape({2, 3, 4}, {1, 6, 2, 1, 2}), "([i, j, kl]) -> ([1, ij, k, 1, l])  i=2, j=3, k=2, l=2");
  EXPECT_EQ(reshape({6, 4}, {4, 6}),
            "([ij, m]) -> ([ik, l])  i=2, j=3: replicated, k=2: replicated, l=6: replicated, m=4: replicated");
  EXPECT_EQ(reshape({3, 4, 7}, {4, 3, 7}),
            "([i, k, m]) -> ([j, l, m])  i: replicated, j: replicated, k: replicated, l: replicated");
  EXPECT_EQ(reshape({}, {1, 1}), "([]) -> ([1, 1])");
  EXPECT_EQ(reshape({0, 4}, {2, 0}),
            "([i, j]) -> ([k, l])  i: replicated, j: replicated, k: replicated, l: replicated");
}

TEST(Rule, ReshapeRulesCoverEveryPairOfShapes) {
  // All pairs of ordered factorizations of 72 into up to four dimensions.
  std::vector<Shape> shapes{{72}};
  for (int64_t a = 1; a <= 72; ++a)
    for (int64_t b = 1; a * b <= 72; ++b)
      if (72 % (a * b) == 0)
        shapes.push_back({a, b, 72 / (a * b)});
  for (const Shape &from : shapes)
    for (const Shape &to : shapes)
      ASSERT_EQ(complaint(reshapeRule(from, to), {from}, {to}), "") << reshape(from, to);
}

TEST(Rule, ContractionLeavesPartialSum) {
  const Rule rule = dotRule(2, 8, 6, 4);
  const std::vector<Shape> operands{{2, 8, 6}, {2, 6, 4}}, results{{2, 8, 4}};
  EXPECT_EQ(projected(rule, operands, results, {-1, -1}), "[{}, {}, {}] [{}, {}, {}] -> [{}, {}, {}]");
  EXPECT_EQ(projected(rule, operands, results, {1, 2}),
            R"([{}, {"x"}, {"y"}] [{}, {"y"}, {}] -> [{}, {"x"}, {}] partial ["y"])");
  EXPECT_EQ(projected(rule, operands, results, {2, 2}),
            R"([{}, {}, {"x", "y"}] [{}, {"x", "y"}, {}] -> [{}, {}, {}] partial ["x", "y"])");
  EXPECT_EQ(projected(rule, operands, results, {3, 0}), R"([{"y"}, {}, {}] [{"y"}, {}, {"x"}] -> [{"y"}, {}, {"x"}])");
  EXPECT_EQ(projected(rule, operands, results, {7, 0}), "-");
  EXPECT_EQ(projected(rule, operands, results, {0}), "-");
}

TEST(Rule, ReshapeCutsOnlyContiguousChunks) {
  const Rule rule = reshapeRule({8, 4}, {2, 16}); // ([ij, k]) -> ([i, jk])  i=2, j=4, k=4
  const std::vector<Shape> operands{{8, 4}}, results{{2, 16}};
  EXPECT_EQ(projected(rule, operands, results, {-1, 0}), R"([{"y"}, {}] -> [{"y"}, {}])");
  EXPECT_EQ(projected(rule, operands, results, {1, 0}), R"([{"y", "x"}, {}] -> [{"y"}, {"x"}])");
  EXPECT_EQ(projected(rule, operands, results, {1, -1}), "-"); // i is not cut: rows 0 and 4 would be on one rank
  EXPECT_EQ(projected(rule, operands, results, {-1, 2}), "-"); // j is not cut in the result
  EXPECT_EQ(projected(rule, operands, results, {0, -1}),
            R"([{"x"}/4, {}] -> [{"x"}, {}])"); // i=2 over 4: two ranks hold padding
}

TEST(Rule, MinorFactorsMustDivide) {
  const Rule rule = reshapeRule({2, 5}, {10}); // ([i, j]) -> ([ij])
  EXPECT_EQ(projected(rule, {{2, 5}}, {{10}}, {-1, 0}), R"([{"y"}, {}] -> [{"y"}])");
  EXPECT_EQ(projected(rule, {{2, 5}}, {{10}}, {1, 0}), "-"); // chunks would have the sizes 2, 2, 1, 2, ...
  const Rule one = reshapeRule({1, 5}, {5});
  EXPECT_EQ(projected(one, {{1, 5}}, {{5}}, {0, -1}), R"([{}, {"x"}] -> [{"x"}])");
}

TEST(Rule, ChunkIsTheProductOfLocalSizes) {
  // 7 x 6 -> 42 with i = 7 over 4 ranks: 2 rows per rank are 12 elements per rank; the default chunk would be 11.
  EXPECT_EQ(projected(reshapeRule({7, 6}, {42}), {{7, 6}}, {{42}}, {0, -1}), R"([{"x"}, {}] -> [{"x"}/12])");
}

TEST(Rule, PartialSumsPassThroughLinearOps) {
  const Rule add = elementwiseRule({8}, 2, 1, {{0, 1}}), multiply = elementwiseRule({8}, 2, 1, {{0}, {1}});
  const std::vector<Shape> two{{8}, {8}}, one{{8}};
  EXPECT_EQ(projected(add, two, one, {1, 0}),
            R"([{"y"}] partial ["x"] [{"y"}] partial ["x"] -> [{"y"}] partial ["x"])");
  EXPECT_EQ(projected(add, two, one, {1, 1}),
            R"([{}] partial ["x", "y"] [{}] partial ["x", "y"] -> [{}] partial ["x", "y"])");
  EXPECT_EQ(projected(multiply, two, one, {1, 2}),
            R"([{}] partial ["x"] [{}] partial ["y"] -> [{}] partial ["x", "y"])");
}

TEST(Rule, OneResultIsPartialInOneKind) {
  Rule rule{{cuttable("i", 8), cuttable("j", 8)}, {{{0}, {1}}}, {{}}};
  rule.factors[1].reduction = ReduceKind::Max;
  EXPECT_EQ(projected(rule, {{8, 8}}, {{}}, {-1, 1}), R"([{}, {"y"}] -> [] partial(max) ["y"])");
  EXPECT_EQ(projected(rule, {{8, 8}}, {{}}, {0, 1}), "-");
}

TEST(Rule, DecomposedReplicatedAndAbsentFactors) {
  Rule lossLike{{cuttable("b", 8), cuttable("v", 8, FactorKind::Decomposed)}, {{{0}, {1}}}, {{{0}}}};
  EXPECT_EQ(projected(lossLike, {{8, 8}}, {{8}}, {-1, 1}), R"([{}, {"y"}] -> [{}])");
  Rule fixed{{cuttable("b", 8, FactorKind::Replicated)}, {{{0}}}, {{{0}}}};
  EXPECT_EQ(projected(fixed, {{8}}, {{8}}, {0, -1}), "-");
  // The op iota has no operand with the factor, and a second result lacks the factor: nothing is summed.
  Rule iota{{cuttable("b", 8)}, {}, {{{0}}, {}}};
  EXPECT_EQ(projected(iota, {}, {{8}, {}}, {0, -1}), R"(-> [{"x"}] [])");
  Rule empty{{cuttable("b", 0)}, {{{0}}}, {{{0}}}};
  EXPECT_EQ(projected(empty, {{0}}, {{0}}, {0, -1}), "-");
}

TEST(Rule, AxesOfSizeOneNeverOccur) {
  const Mesh mesh{{{"x", 1}, {"y", 2}}};
  const Rule rule = elementwiseRule({8}, 1, 1, {});
  std::optional<OpSharding> op = project(rule, mesh, {{0, 0}});
  ASSERT_TRUE(op);
  EXPECT_EQ(op->operands[0].dims[0].axes, std::vector<AxisRef>{wholeAxis(mesh, 1)});
  EXPECT_EQ(enumerateStrategies(rule, mesh), (std::vector<Strategy>{{{-1, -1}}, {{-1, 0}}}));
}

TEST(Rule, EnumeratesAllThatProjectAccepts) {
  const Rule rules[] = {dotRule(2, 8, 3, 4), reshapeRule({8, 4}, {2, 16}), elementwiseRule({6, 3}, 2, 1, {{0, 1}}),
                        reshapeRule({6, 4}, {4, 6})};
  const Mesh mesh{{{"x", 2}, {"y", 3}, {"z", 2}}};
  for (const Rule &rule : rules) {
    std::vector<Strategy> expected;
    const int count = static_cast<int>(rule.factors.size());
    for (int x = -1; x < count; ++x)
      for (int y = -1; y < count; ++y)
        for (int z = -1; z < count; ++z) {
          const Strategy strategy{{x, y, z}};
          bool fits = project(rule, mesh, strategy).has_value();
          for (int f = 0; f < count; ++f) {
            const int64_t n = (x == f ? 2 : 1) * (y == f ? 3 : 1) * (z == f ? 2 : 1);
            fits = fits && (n == 1 || rule.factors[f].kind == FactorKind::PartialSum || rule.factors[f].size >= n);
          }
          if (fits)
            expected.push_back(strategy);
        }
    EXPECT_EQ(enumerateStrategies(rule, mesh), expected) << toString(rule);
    EXPECT_TRUE(std::is_sorted(expected.begin(), expected.end()));
    EXPECT_EQ(expected.front(), (Strategy{{-1, -1, -1}}));
  }
}

TEST(Rule, CheckNamesBothNumbers) {
  const Rule rule = dotRule(2, 8, 6, 4);
  EXPECT_EQ(complaint(rule, {{2, 8, 6}, {2, 6, 4}}, {{2, 8, 4}}), "");
  EXPECT_EQ(complaint(rule, {{2, 8, 6}}, {{2, 8, 4}}),
            "sharding rule: 2 operands in the rule, 1 in the op; both need the same number");
  EXPECT_EQ(complaint(rule, {{2, 8, 6}, {2, 6, 5}}, {{2, 8, 4}}),
            "sharding rule: operand 1 dimension 2 has size 5, its factors n give 4; they must agree");
  EXPECT_EQ(complaint(rule, {{2, 8, 6}, {2, 6, 4}}, {{2, 8}}),
            "sharding rule: result 0 has 3 dimensions in the rule, 2 in the op; both need the same number");
  Rule twice = elementwiseRule({8, 8}, 1, 1, {});
  twice.operands[0][1] = {0};
  EXPECT_EQ(complaint(twice, {{8, 8}}, {{8, 8}}),
            "sharding rule: operand 0 holds factor i twice, again in dimension 1; a factor may occur once in a tensor");
  Rule outside = elementwiseRule({8}, 1, 1, {{1}});
  EXPECT_EQ(complaint(outside, {{8}}, {{8}}),
            "sharding rule: partial sum sum0 names operand 1 of 1; number them from 0");
  outside.operands[0][0] = {1};
  EXPECT_NE(complaint(outside, {{8}}, {{8}}), "");
  outside.operands[0][0] = {9};
  EXPECT_NE(complaint(outside, {{8}}, {{8}}), "");
}
