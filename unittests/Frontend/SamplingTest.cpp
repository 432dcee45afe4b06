// SPDX-License-Identifier: Apache-2.0
// Look-ups at computed places, transforms and pools against values computed by hand, and what of them is refused.
#include "Graphs.h"

namespace kerf {
namespace {

void expectRefused(const Graph &g, const std::vector<std::string> &words) {
  Imported result = importGraph(g);
  ASSERT_FALSE(bool(result.model));
  for (const std::string &word : words)
    EXPECT_NE(result.model.error().message.find(word), std::string::npos) << result.model.error().message;
}

/// Four pixels in a row, looked up at `places` from -1 to 1.
Graph sampled(const std::vector<float> &places, const std::string &mode, const std::string &padding,
              bool alignsCorners) {
  Graph g;
  std::string image = g.constant<float>({1, 1, 4}, {10, 20, 30, 40});
  std::string grid = g.constant<float>({1, int64_t(places.size()), 1}, places);
  onnx::NodeProto *node = g.node("GridSample", {image, grid}, {"y"});
  Graph::setText(node, "mode", mode);
  Graph::setText(node, "padding_mode", padding);
  Graph::setInt(node, "align_corners", alignsCorners);
  return g;
}

TEST(Sampling, PlacesOutsideOfTheImage) {
  // Pixels 0 to 3 lie at -1, -1/3, 1/3 and 1: these places are pixels -3, -1.5, 1.5, 3 and 7.5.
  const std::vector<float> corners{-3, -2, 0, 1, 4};
  auto expect = [&](const char *mode, const char *padding, const std::vector<float> &values) {
    SCOPED_TRACE(std::string(mode) + " " + padding);
    expectFolded<float>(sampled(corners, mode, padding, true), "y", {1, 1, 5}, values);
  };
  expect("linear", "zeros", {0, 0, 25, 40, 0});
  expect("linear", "border", {10, 10, 25, 40, 40});
  expect("linear", "reflection", {40, 25, 25, 40, 25}); // pixels 3, 1.5, 1.5, 3 and 1.5
  expect("nearest", "zeros", {0, 0, 30, 40, 0});        // of two as near the even one
  expect("nearest", "border", {10, 10, 30, 40, 40});
  // Pixels lie at -3/4, -1/4, 1/4 and 3/4, the mirrors at -1 and 1: pixels -0.5, -1.5, 3.5 and 4.5.
  const std::vector<float> edges{-1, -1.5, 1, 1.5};
  expectFolded<float>(sampled(edges, "linear", "reflection", false), "y", {1, 1, 4}, {10, 15, 40, 35});
  expectFolded<float>(sampled(edges, "linear", "zeros", false), "y", {1, 1, 4}, {5, 0, 20, 0});
}

TEST(Sampling, WhatIsRefused) {
  auto refused = [](const char *mode, const char *padding, const std::vector<std::string> &words) {
    Graph g = sampled({0}, mode, padding, false);
    g.input("x", {1});
    g.sumIsLoss(g.op("Mul", {"x", "y"}));
    expectRefused(g, words);
  };
  refused("cubic", "zeros", {"(GridSample)", "mode 'cubic' is not supported over 1 dimensions"});
  refused("linear", "wrap", {"padding_mode 'wrap'"});
  Graph wide;
  wide.input("x", {1, 1, 4});
  wide.input("places", {1, 5, 2});
  wide.sumIsLoss(wide.op("GridSample", {"x", "places"}));
  expectRefused(wide, {"[1, 5, 2]", "[samples, places, 1]"});
  Graph matrices;
  matrices.input("theta", {2, 2, 2});
  matrices.sumIsLoss(matrices.op("AffineGrid", {"theta", matrices.integers({2, 3, 5, 5})}));
  expectRefused(matrices, {"(AffineGrid)", "[2, 2, 2]", "[2, 3, 5, 5]"});
}

TEST(Sampling, SequencesAreReversedUpToTheirLengths) {
  for (bool batchFirst : {false, true}) {
    Graph g;
    g.constant<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6}, "data");
    std::string lengths = batchFirst ? g.integers({2, 3}) : g.integers({1, 2, 2});
    std::string y =
        g.op("ReverseSequence", {"data", lengths}, {{"time_axis", batchFirst}, {"batch_axis", !batchFirst}});
    expectFolded<int64_t>(g, y, {2, 3},
                          batchFirst ? std::vector<int64_t>{2, 1, 3, 6, 5, 4} : std::vector<int64_t>{1, 5, 6, 4, 2, 3});
  }
  Graph other;
  other.input("x", {2, 3});
  other.sumIsLoss(other.op("ReverseSequence", {"x", other.integers({1, 1})}));
  expectRefused(other, {"(ReverseSequence)", "[2]", "[2, 3]"});
}

TEST(Sampling, SlicesThatAConditionChooses) {
  Graph g;
  g.constant<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6}, "data");
  std::string columns = g.constant<bool>({3}, {true, false, true});
  expectFolded<int64_t>(g, g.op("Compress", {"data", columns}, {{"axis", -1}}), {2, 2}, {1, 3, 4, 6});
  Graph flat;
  flat.constant<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6}, "data");
  expectFolded<int64_t>(flat, flat.op("Compress", {"data", flat.constant<bool>({4}, {false, true, false, true})}), {2},
                        {2, 4});
  Graph far;
  far.input("x", {2, 3});
  far.sumIsLoss(far.op("Compress", {"x", far.constant<bool>({4}, {false, false, false, true})}, {{"axis", 1}}));
  expectRefused(far, {"(Compress)", "element 3 of dimension 1, which has the size 3"});
}

TEST(Sampling, CentresAreCutAndPadded) {
  Graph g;
  g.constant<int64_t>({3, 2}, {1, 2, 3, 4, 5, 6}, "data");
  expectFolded<int64_t>(g, g.op("CenterCropPad", {"data", g.integers({2, 5})}), {2, 5}, {0, 1, 2, 0, 0, 0, 3, 4, 0, 0});
}

TEST(Sampling, ATransformIsAProduct) {
  for (int64_t length : {3, 4, 7}) {
    Graph g;
    g.input("x", {2, 5, 4, 1});
    std::string size = g.constant<int64_t>({}, {length}), axis = g.constant<int64_t>({}, {-2});
    g.sumIsLoss(g.op("DFT", {"x", size, axis}, {{"onesided", 1}}));
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << result.model.error().message;
    ASSERT_EQ(result.ops<ir::DotGeneralOp>().size(), 1u);
    ir::DotGeneralOp dot = result.ops<ir::DotGeneralOp>()[0];
    EXPECT_EQ(ir::shapeOf(dot.getResult()), (Shape{2, 5, length / 2 + 1, 2}));
    EXPECT_EQ(ir::shapeOf(dot.getLhs())[2], std::min<int64_t>(length, 4)) << "what is not there is no zero";
  }
  auto refused = [](const Shape &shape, std::map<std::string, int64_t> attributes, int64_t axis,
                    const std::vector<std::string> &words) {
    Graph g;
    g.input("x", shape);
    g.sumIsLoss(g.op("DFT", {"x", "", g.constant<int64_t>({}, {axis})}, attributes));
    expectRefused(g, words);
  };
  refused({2, 4, 3}, {}, 1, {"(DFT)", "[2, 4, 3]", "imaginary"});
  refused({2, 4, 2}, {}, 2, {"axis 2 is the dimension"});
  refused({2, 4, 2}, {{"onesided", 1}}, 1, {"onesided is set for complex numbers"});
  refused({2, 5000, 1}, {}, 1, {"5000 elements to 5000", "16777216"});
}

TEST(Sampling, PoolsOfPowers) {
  for (int64_t p : {0, 1, 2, 3}) {
    Graph g;
    g.input("x", {1, 1, 6});
    onnx::NodeProto *node = g.node("LpPool", {"x"}, {"y"});
    Graph::setInts(node, "kernel_shape", {2});
    Graph::setInt(node, "p", p);
    g.sumIsLoss("y");
    if (p == 0) {
      expectRefused(g, {"(LpPool)", "p is 0"});
      continue;
    }
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << result.model.error().message;
    EXPECT_EQ(result.ops<ir::SqrtOp>().size(), p == 2 ? 1u : 0u);
    EXPECT_EQ(result.ops<ir::PowerOp>().size(), p == 3 ? 2u : 0u);
  }
}

} // namespace
} // namespace kerf
