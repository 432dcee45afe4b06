// SPDX-License-Identifier: Apache-2.0
// Tests of constant folding against values computed by hand. Each graph adds a folded constant to an input, and the
// test reads the constant from the IR.
#include "Common/Fold.h"
#include "Graphs.h"

#include <random>

namespace kerf {
namespace {

TEST(Constants, ShapeArithmetic) {
  Graph g;
  std::string y = g.input("y", {3, 5});
  std::string size = g.op("Gather", {g.op("Shape", {y}), g.integers({1})});
  expectFolded<int64_t>(g, g.op("Concat", {size, g.integers({-1, 7})}, {{"axis", 0}}), {3}, {5, -1, 7});
}

TEST(Constants, RangeAndNegativeRange) {
  auto scalar = [](Graph &g, int64_t v) { return g.constant<int64_t>({}, {v}); };
  Graph up;
  expectFolded<int64_t>(up, up.op("Range", {scalar(up, 2), scalar(up, 9), scalar(up, 3)}), {3}, {2, 5, 8});
  Graph down;
  expectFolded<int64_t>(down, down.op("Range", {scalar(down, 3), scalar(down, -3), scalar(down, -2)}), {3}, {3, 1, -1});
}

TEST(Constants, CumSumFourWays) {
  struct Case {
    int64_t exclusive, reverse;
    std::vector<int64_t> expected;
  };
  for (const Case &c :
       {Case{0, 0, {1, 3, 6, 10}}, Case{1, 0, {0, 1, 3, 6}}, Case{0, 1, {10, 9, 7, 4}}, Case{1, 1, {9, 7, 4, 0}}}) {
    Graph g;
    std::string sum = g.op("CumSum", {g.integers({1, 2, 3, 4}), g.constant<int64_t>({}, {-1})},
                           {{"exclusive", c.exclusive}, {"reverse", c.reverse}});
    expectFolded<int64_t>(g, sum, {4}, c.expected);
  }
}

TEST(Constants, GatherNdWithAndWithoutBatch) {
  Graph g;
  std::string data = g.constant<int64_t>({2, 3}, {10, 11, 12, 20, 21, 22});
  expectFolded<int64_t>(g, g.op("GatherND", {data, g.constant<int64_t>({2, 2}, {1, 0, 0, -1})}), {2}, {20, 12});
  Graph batched;
  data = batched.constant<int64_t>({2, 3}, {10, 11, 12, 20, 21, 22});
  expectFolded<int64_t>(batched,
                        batched.op("GatherND", {data, batched.constant<int64_t>({2, 1}, {2, 0})}, {{"batch_dims", 1}}),
                        {2}, {12, 20});
}

TEST(Constants, SliceBothWaysAndToTheEnd) {
  Graph g;
  std::string data = g.integers({0, 1, 2, 3, 4, 5, 6});
  std::string end = g.integers({std::numeric_limits<int64_t>::max()});
  expectFolded<int64_t>(g, g.op("Slice", {data, g.integers({-6}), end, g.integers({0}), g.integers({2})}), {3},
                        {1, 3, 5});
  Graph back;
  data = back.integers({0, 1, 2, 3, 4, 5, 6});
  end = back.integers({std::numeric_limits<int64_t>::min() + 1});
  expectFolded<int64_t>(
      back, back.op("Slice", {data, back.integers({-2}), end, back.integers({-1}), back.integers({-3})}), {2}, {5, 2});
}

TEST(Constants, IntegerDivisionAndRemainder) {
  Graph g;
  expectFolded<int64_t>(g, g.op("Div", {g.integers({7, -7, 7, -7}), g.integers({2, 2, -2, -2})}), {4}, {3, -3, -3, 3});
  Graph mod;
  expectFolded<int64_t>(mod, mod.op("Mod", {mod.integers({7, -7, 7, -7}), mod.integers({4, 4, -4, -4})}), {4},
                        {3, 1, -1, -3});
  Graph fmod;
  std::string r = fmod.op("Mod", {fmod.integers({7, -7, 7, -7}), fmod.integers({4, 4, -4, -4})}, {{"fmod", 1}});
  expectFolded<int64_t>(fmod, r, {4}, {3, -3, 3, -3});
}

TEST(Constants, WhereBroadcastsThreeWays) {
  Graph g;
  std::string p = g.constant<bool>({2, 1}, {true, false});
  std::string w = g.op("Where", {p, g.constant<float>({3}, {1, 2, 3}), g.constant<float>({}, {-9})});
  expectFolded<float>(g, w, {2, 3}, {1, 2, 3, -9, -9, -9});
}

TEST(Constants, PadTileTrilu) {
  Graph g;
  std::string padded =
      g.op("Pad", {g.constant<int64_t>({2, 2}, {1, 2, 3, 4}), g.integers({0, 1, 1, -1}), g.constant<int64_t>({}, {9})});
  expectFolded<int64_t>(g, padded, {3, 2}, {9, 1, 9, 3, 9, 9});
  Graph tile;
  expectFolded<int64_t>(tile, tile.op("Tile", {tile.constant<int64_t>({1, 2}, {1, 2}), tile.integers({2, 2})}), {2, 4},
                        {1, 2, 1, 2, 1, 2, 1, 2});
  Graph lower;
  std::string ones = lower.constant<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  expectFolded<int64_t>(lower, lower.op("Trilu", {ones, lower.constant<int64_t>({}, {1})}, {{"upper", 0}}), {2, 3},
                        {1, 2, 0, 4, 5, 6});
}

TEST(Constants, SplitToSequenceAndBack) {
  Graph g;
  std::string parts =
      g.op("SplitToSequence", {g.integers({1, 2, 3, 4, 5}), g.constant<int64_t>({}, {2})}, {{"axis", 0}});
  expectFolded<int64_t>(g, g.op("SequenceAt", {parts, g.constant<int64_t>({}, {1})}), {2}, {3, 4});
}

TEST(Constants, SequencesGrowAndJoin) {
  Graph g;
  std::string parts = g.op("SequenceConstruct", {g.integers({1, 2}), g.integers({3, 4})});
  parts = g.op("SequenceInsert", {parts, g.integers({5, 6}), g.constant<int64_t>({}, {-1})});
  expectFolded<int64_t>(g, g.op("ConcatFromSequence", {parts}, {{"axis", 1}, {"new_axis", 1}}), {2, 3},
                        {1, 5, 3, 2, 6, 4});
}

TEST(Constants, ScattersCombineInTheirOrder) {
  auto scatter = [](const char *reduction, const std::vector<int64_t> &expected) {
    Graph g;
    std::string data = g.constant<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
    onnx::NodeProto *node =
        g.node("ScatterElements",
               {data, g.constant<int64_t>({2, 2}, {2, -1, 0, 0}), g.constant<int64_t>({2, 2}, {7, 8, -9, 10})}, {"y"});
    Graph::setInt(node, "axis", 1);
    if (*reduction)
      Graph::setText(node, "reduction", reduction);
    expectFolded<int64_t>(g, "y", {2, 3}, expected);
  };
  scatter("", {1, 2, 8, 10, 5, 6}); // for a repeated position the last update wins
  scatter("add", {1, 2, 18, 5, 5, 6});
  scatter("mul", {1, 2, 168, -360, 5, 6});
  scatter("max", {1, 2, 8, 10, 5, 6});
  scatter("min", {1, 2, 3, -9, 5, 6});
}

TEST(Constants, ScatterOfSlices) {
  Graph g;
  std::string data = g.constant<int64_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  std::string at = g.constant<int64_t>({2, 1}, {-1, 0});
  expectFolded<int64_t>(g, g.op("ScatterND", {data, at, g.constant<int64_t>({2, 2}, {7, 8, 9, 10})}), {3, 2},
                        {9, 10, 3, 4, 7, 8});
}

TEST(Constants, ProductsAndPlacesOfNonZeros) {
  Graph g;
  std::string data = g.constant<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  expectFolded<int64_t>(g, g.op("ReduceProd", {data, g.integers({1})}, {{"keepdims", 0}}), {2}, {6, 120});
  Graph found;
  data = found.constant<int64_t>({2, 3}, {0, 2, 0, 4, 0, 6});
  expectFolded<int64_t>(found, found.op("NonZero", {data}), {2, 3}, {0, 1, 1, 1, 0, 2});
}

TEST(Constants, BitsOfIntegers) {
  Graph g(20);
  std::string x = g.op("BitwiseXor", {g.integers({12, -1, 5}), g.integers({10, 6, 5})});
  expectFolded<int64_t>(g, g.op("BitwiseNot", {x}), {3}, {-7, 6, -1});
}

TEST(Constants, RemaindersOfFloatsHaveTheDivisorsSign) {
  Graph g;
  std::string x = g.constant<float>({4}, {5, -5, 5, -5}), y = g.constant<float>({4}, {3, 3, -3, -3});
  expectFolded<float>(g, g.op("Mod", {x, y}), {4}, {2, 1, -1, -2});
}

TEST(Constants, CastTruncatesAndBoolIsNotZero) {
  Graph g;
  expectFolded<int64_t>(
      g, g.op("Cast", {g.constant<float>({4}, {1.9f, -1.9f, 0.5f, 3})}, {{"to", onnx::TensorProto::INT64}}), {4},
      {1, -1, 0, 3});
  Graph b;
  expectFolded<int64_t>(b, b.op("Cast", {b.integers({0, 5, -1})}, {{"to", onnx::TensorProto::BOOL}}), {3}, {0, 1, 1});
}

TEST(Constants, BroadcastAndReduceRandom) {
  using namespace frontend;
  unsigned seed = 20240607;
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    size_t rank = 1 + random() % 4;
    Shape full(rank), a(rank), b(rank);
    for (size_t d = 0; d < rank; ++d) {
      full[d] = 1 + random() % 4;
      a[d] = random() % 3 ? full[d] : 1;
      b[d] = a[d] == full[d] && random() % 2 ? 1 : full[d];
    }
    auto literal = [&](const Shape &shape) {
      FreshLiteral fresh = *allocateLiteral(DType::I64, shape);
      for (int64_t i = 0; i < elementsOf(shape); ++i)
        fresh.as<int64_t>()[i] = int64_t(random() % 3);
      return random() % 2 ? compress(fresh.literal) : fresh.literal; // the value is the same in both cases
    };
    Literal x = literal(a), y = literal(b);
    Literal sum = *foldBinary(Binary::Add, x, y);
    ASSERT_EQ(sum.shape, full);
    std::vector<int64_t> xs = *integersOf(x), ys = *integersOf(y), sums = *integersOf(sum);
    auto at = [&](const Shape &shape, int64_t flat) {
      int64_t offset = 0, step = 1;
      for (size_t d = rank; d-- > 0;) {
        int64_t index = flat % full[d];
        flat /= full[d];
        offset += (shape[d] == 1 ? 0 : index) * step;
        step *= shape[d];
      }
      return offset;
    };
    for (int64_t i = 0; i < elementsOf(full); ++i)
      ASSERT_EQ(sums[i], xs[at(a, i)] + ys[at(b, i)]);
    int64_t dim = int64_t(random() % rank);
    std::vector<int64_t> reduced = *integersOf(*foldReduce(Reduction::Sum, sum, {dim}));
    Shape rest = full;
    rest[dim] = 1;
    std::vector<int64_t> expected(elementsOf(rest));
    for (int64_t i = 0; i < elementsOf(full); ++i)
      expected[at(rest, i)] += sums[i];
    ASSERT_EQ(reduced, expected);
  }
}

/// Returns a graph with a float mask that has `masked` above the diagonal; one element may be changed.
Graph maskGraph(const Shape &shape, float masked, int64_t spoiled = -1) {
  Graph g;
  int64_t size = shape.back();
  std::vector<float> mask(elementsOf(shape));
  for (size_t i = 0; i < mask.size(); ++i)
    mask[i] = int64_t(i) % size <= int64_t(i) / size % size ? 0 : masked;
  if (spoiled >= 0)
    mask[spoiled] = 5;
  std::string x = g.input("x", {shape[0], 2, size, size});
  g.sumIsLoss(g.op("Add", {x, g.constant<float>(shape, mask, "val_90")}));
  return g;
}

TEST(Constants, CausalMaskBecomesIndices) {
  for (float masked : {-3.4028235e38f, -std::numeric_limits<float>::infinity(), -1e9f}) {
    Imported result = importGraph(maskGraph({3, 1, 40, 40}, masked));
    ASSERT_TRUE(bool(result.model)) << result.model.error().message;
    EXPECT_TRUE(result.arguments("constant").empty());
    ASSERT_EQ(result.ops<ir::CompareOp>().size(), 1u);
    ASSERT_EQ(result.ops<ir::SelectOp>().size(), 1u);
    EXPECT_EQ(ir::shapeOf(result.ops<ir::SelectOp>()[0].getResult()), (Shape{40, 40}));
  }
}

TEST(Constants, AlmostCausalMaskStaysData) {
  Imported small = importGraph(maskGraph({1, 1, 4, 4}, -2.0f)); // -2 is a bias, not a mask
  EXPECT_EQ(small.ops<ir::CompareOp>().size(), 0u);
  // One element of one copy differs, so no dimension can be stored once.
  Imported spoiled = importGraph(maskGraph({3, 1, 40, 40}, -1e30f, 40 * 40 + 7));
  ASSERT_TRUE(bool(spoiled.model));
  EXPECT_EQ(spoiled.ops<ir::CompareOp>().size(), 0u);
  EXPECT_EQ(spoiled.arguments("constant"), std::vector<std::string>{"val_90"});
  EXPECT_EQ(spoiled.model->weights.at("val_90").shape, (Shape{3, 40, 40}));
}

TEST(Constants, EqualSlicesAreStoredOnce) {
  Graph g;
  std::vector<float> table(4 * 50 * 30);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = float(i % (50 * 30));
  std::string x = g.input("x", {4, 50, 30});
  g.sumIsLoss(g.op("Mul", {x, g.constant<float>({4, 50, 30}, table, "val_90")}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model));
  EXPECT_EQ(result.model->weights.at("val_90").shape, (Shape{50, 30}));
}

TEST(Constants, BooleanMaskOfTrueIsNoOp) {
  Graph g;
  std::string x = g.input("x", {2, 3});
  std::string mask = g.op("LessOrEqual", {g.integers({0, 1, 2}), g.integers({2, 2, 2})});
  g.sumIsLoss(g.op("Where", {mask, x, g.constant<float>({}, {-1e30f})}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model));
  EXPECT_EQ(result.ops<ir::SelectOp>().size(), 0u);
}

TEST(Constants, RemaindersOfComputedIntegers) {
  for (bool fmod : {false, true}) {
    Graph g;
    g.input("x", {4});
    g.input("n", {4}, onnx::TensorProto::INT64);
    std::string rest = g.op("Mod", {"n", g.constant<int64_t>({}, {5})}, {{"fmod", fmod}});
    g.sumIsLoss(g.op("Mul", {"x", g.op("Cast", {rest}, {{"to", onnx::TensorProto::FLOAT}})}));
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << result.model.error().message;
    EXPECT_EQ(result.ops<ir::SelectOp>().size(), fmod ? 0u : 1u) << "the divisor's sign or the dividend's";
  }
  Graph floating;
  floating.input("x", {4});
  floating.sumIsLoss(floating.op("Mod", {"x", floating.constant<float>({}, {5})}));
  Imported result = importGraph(floating);
  ASSERT_FALSE(bool(result.model));
  EXPECT_NE(result.model.error().message.find("(Mod): the remainder of floating-point"), std::string::npos);
}

} // namespace
} // namespace kerf
