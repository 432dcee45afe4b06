// SPDX-License-Identifier: Apache-2.0
// Convolutions, pools and normalizations of images: shapes, padding, and what is refused at the door.
#include "Graphs.h"

using namespace kerf;
using kerf::Graph;

namespace {

void expectRefused(const Graph &graph, const std::vector<std::string> &words) {
  Imported result = importGraph(graph);
  ASSERT_FALSE(bool(result.model));
  for (const std::string &word : words)
    EXPECT_NE(result.model.error().message.find(word), std::string::npos)
        << "'" << word << "' is not in: " << result.model.error().message;
}

/// A convolution of x [2, 4, 9, 8] by w [6, 4 / groups, 3, 2].
Graph convolution(int64_t groups = 1, const std::function<void(onnx::NodeProto *)> &more = {}) {
  Graph g;
  g.input("x", {2, 4, 9, 8});
  g.parameter("w", {6, 4 / groups, 3, 2});
  onnx::NodeProto *node = g.node("Conv", {"x", "w"}, {"y"});
  Graph::setInt(node, "group", groups);
  if (more)
    more(node);
  g.sumIsLoss("y");
  return g;
}

template <typename Op> Op onlyOp(Imported &result) {
  EXPECT_TRUE(bool(result.model)) << result.model.error().message;
  std::vector<Op> found = result.ops<Op>();
  EXPECT_EQ(found.size(), 1u);
  return found.front();
}

TEST(Windows, ConvolutionsAreReadWithTheirSteps) {
  Imported result = importGraph(convolution(2, [](onnx::NodeProto *node) {
    Graph::setInts(node, "strides", {2, 1});
    Graph::setInts(node, "dilations", {1, 3});
    Graph::setInts(node, "pads", {1, 0, 2, 4});
  }));
  auto op = onlyOp<ir::ConvolutionOp>(result);
  EXPECT_EQ(ir::shapeOf(op.getResult()), (Shape{2, 6, 5, 9}));
  EXPECT_EQ(op.getLow(), (llvm::ArrayRef<int64_t>{1, 0}));
  EXPECT_EQ(op.getHigh(), (llvm::ArrayRef<int64_t>{2, 4}));
}

TEST(Windows, AutomaticPadding) {
  const std::tuple<const char *, Shape, std::vector<int64_t>, std::vector<int64_t>> rows[] = {
      {"SAME_UPPER", {2, 6, 5, 8}, {1, 0}, {1, 1}}, // 9 by strides of 2: two missing; 8: one, behind
      {"SAME_LOWER", {2, 6, 5, 8}, {1, 1}, {1, 0}},
      {"VALID", {2, 6, 4, 7}, {0, 0}, {0, 0}},
  };
  for (const auto &[mode, shape, low, high] : rows) {
    Imported result = importGraph(convolution(1, [mode = mode](onnx::NodeProto *node) {
      Graph::setInts(node, "strides", {2, 1});
      Graph::setText(node, "auto_pad", mode);
    }));
    auto op = onlyOp<ir::ConvolutionOp>(result);
    EXPECT_EQ(ir::shapeOf(op.getResult()), shape) << mode;
    EXPECT_EQ(op.getLow(), llvm::ArrayRef(low)) << mode;
    EXPECT_EQ(op.getHigh(), llvm::ArrayRef(high)) << mode;
  }
}

TEST(Windows, WrongConvolutionsAreRefused) {
  expectRefused(convolution(1, [](auto *node) { Graph::setInts(node, "strides", {0, 1}); }),
                {"node_y", "strides", "0"});
  expectRefused(convolution(1, [](auto *node) { Graph::setInts(node, "strides", {1}); }), {"strides", "1", "2"});
  expectRefused(convolution(1, [](auto *node) { Graph::setInts(node, "pads", {-1, 0, 0, 0}); }), {"pads", "-1"});
  expectRefused(convolution(1, [](auto *node) { Graph::setInts(node, "kernel_shape", {3, 3}); }),
                {"kernel_shape", "[3, 3]", "[6, 4, 3, 2]"});
  expectRefused(convolution(1, [](auto *node) { Graph::setInts(node, "dilations", {5, 1}); }), {"spans 11", "9"});
  expectRefused(convolution(1, [](auto *node) { Graph::setText(node, "auto_pad", "SAME"); }), {"auto_pad", "SAME"});
  Graph channels = convolution();
  channels.graph->mutable_node(0)->mutable_attribute(0)->set_i(3);
  expectRefused(channels, {"3 groups", "[2, 4, 9, 8]", "[6, 4, 3, 2]"});
}

/// A pool of x [2, 3, 7, 8] with a window of 3 x 2 and strides of 2.
Imported pool(const char *op, const std::map<std::string, int64_t> &attributes = {}) {
  Graph g;
  g.input("images", {2, 3, 7, 8});
  std::string x = g.op("Mul", {"images", g.parameter("w", {1, 3, 1, 1})});
  onnx::NodeProto *node = g.node(op, {x}, {"y"});
  Graph::setInts(node, "kernel_shape", {3, 2});
  Graph::setInts(node, "strides", {2, 2});
  Graph::setInts(node, "pads", {1, 0, 1, 1});
  for (const auto &[key, value] : attributes)
    Graph::setInt(node, key, value);
  g.sumIsLoss("y");
  return importGraph(g);
}

TEST(Windows, PoolsRoundPlacesDownOrUp) {
  Imported down = pool("MaxPool"), up = pool("MaxPool", {{"ceil_mode", 1}});
  EXPECT_EQ(ir::shapeOf(onlyOp<ir::ReduceWindowOp>(down).getResult()), (Shape{2, 3, 4, 4}));
  auto op = onlyOp<ir::ReduceWindowOp>(up); // 9 columns by 2: a fifth window would begin in the padding behind
  EXPECT_EQ(ir::shapeOf(op.getResult()), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(op.getKind(), ir::ReduceKindIR::max);
}

TEST(Windows, AveragesCountPaddingOrNot) {
  // With the padding each place counts 6; without, the first and the last row count less: a constant for each row.
  for (bool counts : {true, false}) {
    Imported result = pool("AveragePool", {{"count_include_pad", counts}});
    onlyOp<ir::ReduceWindowOp>(result);
    auto divide = onlyOp<ir::DivideOp>(result);
    auto broadcast = divide.getRhs().getDefiningOp<ir::BroadcastInDimOp>();
    ASSERT_TRUE(broadcast);
    EXPECT_EQ(ir::tensorType(broadcast.getOperand()).getNumElements(), counts ? 1 : 4);
  }
}

TEST(Windows, StatisticsOfATrainedNormalizationAreUpdatedBuffers) {
  for (bool training : {false, true}) {
    Graph g;
    g.input("x", {4, 3, 5});
    for (const char *name : {"scale", "bias", "mean", "var"})
      g.parameter(name, {3});
    onnx::NodeProto *node = g.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"});
    if (training)
      Graph::setInt(node, "training_mode", 1);
    g.sumIsLoss("y");
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << result.model.error().message;
    EXPECT_EQ(result.arguments("buffer"),
              training ? (std::vector<std::string>{"mean", "var"}) : std::vector<std::string>());
    EXPECT_EQ(result.function().getNumResults(), training ? 3u : 1u);
    for (unsigned i = 0; training && i < result.function().getNumArguments(); ++i)
      EXPECT_EQ(bool(result.function().getArgAttr(i, ir::KerfDialect::kUpdatedByAttr)),
                result.function().getArgAttrOfType<mlir::StringAttr>(i, "kerf.kind").str() == "buffer");
  }
}

TEST(Windows, ABufferIsUpdatedOnce) {
  Graph g;
  g.input("x", {4, 3, 5});
  for (const char *name : {"scale", "bias", "mean", "var"})
    g.parameter(name, {3});
  std::string y = "x";
  for (const char *name : {"a", "b"}) {
    onnx::NodeProto *node = g.node("BatchNormalization", {y, "scale", "bias", "mean", "var"}, {name});
    Graph::setInt(node, "training_mode", 1);
    y = name;
  }
  g.sumIsLoss(y);
  expectRefused(g, {"node_b", "'mean'", "another node updates"});
}

TEST(Windows, PlacesThatNameEachElementOnceAreABroadcast) {
  Graph g;
  g.input("x", {2, 3});
  std::string x = g.op("Mul", {"x", g.parameter("w", {2, 3})});
  std::vector<int64_t> at, turned;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t s = 0; s < 3; ++s) {
      at.insert(at.end(), {b, s});
      turned.insert(turned.end(), {b, 2 - s});
    }
  g.op("GatherND", {x, g.constant<int64_t>({2, 1, 3, 2}, at)}, {}, "y");
  Graph other = g;
  other.op("GatherND", {x, other.constant<int64_t>({2, 1, 3, 2}, turned)}, {}, "z");
  g.sumIsLoss("y");
  other.sumIsLoss("z");
  Imported straight = importGraph(g), lookedUp = importGraph(other);
  ASSERT_TRUE(bool(straight.model) && bool(lookedUp.model));
  EXPECT_TRUE(straight.ops<ir::GatherOp>().empty());
  EXPECT_EQ(lookedUp.ops<ir::GatherOp>().size(), 1u);
}

} // namespace
