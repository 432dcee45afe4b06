// SPDX-License-Identifier: Apache-2.0
// Tests of wrong model files, one fault in each test. Each import fails with a message that names the fault and its
// place, and never crashes.
#include "Graphs.h"

namespace kerf {
namespace {

/// The import fails and its message holds every one of `parts`.
/// Returns a graph that sums x [2, 3] times w [3, 4].
Graph product() {
  Graph g;
  g.input("x", {2, 3});
  g.sumIsLoss(g.op("MatMul", {"x", g.parameter("w", {3, 4})}, {}, "y"));
  return g;
}

TEST(Errors, EveryTruncationOfAFile) {
  TemporaryFolder folder;
  Graph g = product();
  std::string bytes = g.model.SerializeAsString(), path = (folder.path / "cut.onnx").string();
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes.substr(0, length);
    EXPECT_FALSE(bool(importFile(path).model)) << length;
  }
}

TEST(Errors, EveryByteDamagedGivesNoCrash) { importDamaged(product().model.SerializeAsString()); }

TEST(Errors, ListsThatNoMachineHolds) {
  Graph pieces;
  pieces.node("SplitToSequence", {pieces.input("x", {int64_t(1) << 40})}, {"s"});
  pieces.sumIsLoss(
      pieces.op("Mul", {pieces.op("ConcatFromSequence", {"s"}, {{"axis", 0}}), pieces.parameter("w", {1})}));
  expectError(importGraph(pieces), {"SplitToSequence", "1099511627776 pieces", "65536"});
  Graph places;
  std::string table = places.op("Mul", {places.input("x", {int64_t(1) << 40}), places.parameter("w", {1})});
  std::string at = places.constant<int64_t>({1, 1}, {3});
  places.sumIsLoss(places.op("ScatterND", {table, at, places.constant<float>({1}, {7})}));
  expectError(importGraph(places), {"ScatterND", "1099511627776 positions", "67108864"});
  Graph triangle;
  std::string square = triangle.op("Mul", {triangle.input("x", {1 << 17, 1 << 17}), triangle.parameter("w", {1})});
  triangle.sumIsLoss(triangle.op("Trilu", {square}));
  expectError(importGraph(triangle), {"Trilu", "131072 x 131072", "1073741824"});
}

TEST(Errors, NoSuchFile) { expectError(importFile("/nowhere/model.onnx"), {"/nowhere/model.onnx"}); }

TEST(Errors, AnotherSuffix) {
  expectError(importFile("model.pt"), {"model.pt", "export the model to ONNX", "<weights>"});
  expectError(importFile("model.xyz"), {"model.xyz", ".onnx"});
  expectError(importFile("nowhere/config.json"), {"nowhere/config.json"});
}

TEST(Errors, AllUnsupportedOperatorsInOneMessage) {
  Graph g;
  g.input("x", {2, 3});
  std::string a = g.op("Det", {"x"}), b = g.op("Unique", {a}), c = g.op("Unique", {b}), d = g.op("Range", {c, c, c});
  g.graph->mutable_node(1)->set_domain("com.example");
  g.sumIsLoss(d);
  expectError(importGraph(g),
              {"3 operators", "Det (opset 20; node 'node_t0')",
               "Unique (opset 20; node 'node_t1' and 1 more; domain com.example)", "Range", "constants only"});
}

TEST(Errors, OperatorNewerThanKnown) {
  Graph g(13);
  g.input("x", {2, 3});
  g.sumIsLoss(g.op("Gelu", {"x"}));
  expectError(importGraph(g), {"Gelu (opset 13; node 'node_t0'; supported from opset 20 to "});
}

TEST(Errors, UnsupportedOperatorsOffTheLossDoNotMatter) {
  Graph g = product();
  g.op("Unique", {"y"});
  EXPECT_TRUE(bool(importGraph(g).model));
}

TEST(Errors, TwoInitializersOfOneName) {
  Graph g = product();
  g.parameter("w", {1});
  expectError(importGraph(g), {"two initializers", "'w'"});
}

TEST(Errors, TwoNodesMakeOneValue) {
  Graph g = product();
  g.op("Relu", {"x"}, {}, "y");
  expectError(importGraph(g), {"'y'", "two nodes"});
}

TEST(Errors, UndefinedName) {
  Graph g;
  g.input("x", {2});
  g.sumIsLoss(g.op("Add", {"x", "ghost"}));
  expectError(importGraph(g), {"node 'node_t0' (Add)", "'ghost'", "no node computes"});
}

TEST(Errors, Cycle) {
  Graph g;
  g.input("x", {2});
  g.op("Add", {"x", "b"}, {}, "a");
  g.sumIsLoss(g.op("Relu", {"a"}, {}, "b"));
  expectError(importGraph(g), {"'b'", "cycle"});
}

TEST(Errors, ElementCountDiffersFromShape) {
  Graph g = product();
  g.graph->mutable_initializer(0)->set_dims(0, 5);
  expectError(importGraph(g), {"'w'", "[5, 4]", "80", "48"});
}

TEST(Errors, TypedFieldsCountDiffers) {
  Graph g = product();
  onnx::TensorProto *w = g.graph->mutable_initializer(0);
  w->clear_raw_data();
  w->add_float_data(1);
  expectError(importGraph(g), {"'w'", "12 elements", "1"});
}

TEST(Errors, ImpossibleDimensions) {
  for (int64_t size : {int64_t(-1), std::numeric_limits<int64_t>::max()}) {
    Graph g = product();
    g.graph->mutable_initializer(0)->set_dims(0, size);
    expectError(importGraph(g), {"'w'", "is not valid"});
    Graph input = product();
    input.graph->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_value(size);
    expectError(importGraph(input), {"is not valid"});
  }
}

TEST(Errors, SymbolicDimension) {
  Graph g = product();
  g.graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(
      "batch");
  expectError(importGraph(g), {"input 'x'", "'batch'", "static"});
}

TEST(Errors, ElementTypeWithoutMeaning) {
  Graph g = product();
  g.graph->mutable_initializer(0)->set_data_type(onnx::TensorProto::COMPLEX64);
  expectError(importGraph(g), {"'w'", "COMPLEX64"});
}

TEST(Errors, ShapesThatDoNotFit) {
  Graph g;
  g.input("x", {2, 3});
  g.sumIsLoss(g.op("MatMul", {"x", g.parameter("w", {4, 4})}));
  expectError(importGraph(g), {"node 'node_t0' (MatMul)", "3", "4"});
  Graph add;
  add.input("x", {2, 3});
  add.sumIsLoss(add.op("Add", {"x", add.parameter("w", {2})}));
  expectError(importGraph(add), {"(Add)", "[2, 3]", "[2]"});
}

TEST(Errors, ShapesThatWouldFillNoMachine) {
  Graph g;
  g.input("x", {1});
  g.sumIsLoss(g.op("Expand", {"x", g.integers({int64_t(1) << 40, int64_t(1) << 40})}));
  expectError(importGraph(g), {"(Expand)", "is not valid"});
}

TEST(Errors, ShapeThatIsComputed) {
  Graph g;
  g.input("x", {2, 3});
  g.input("s", {1}, onnx::TensorProto::INT64);
  g.sumIsLoss(g.op("Reshape", {"x", "s"}));
  expectError(importGraph(g), {"(Reshape)", "'s'", "constant"});
}

TEST(Errors, AttributesThatMakeNoSense) {
  Graph perm;
  perm.input("x", {2, 3});
  onnx::NodeProto *node = perm.node("Transpose", {"x"}, {"y"});
  Graph::setInts(node, "perm", {0, 0});
  perm.sumIsLoss("y");
  expectError(importGraph(perm), {"(Transpose)", "[0, 0]"});
  Graph axis;
  axis.input("x", {2, 3});
  axis.sumIsLoss(axis.op("Softmax", {"x"}, {{"axis", 2}}));
  expectError(importGraph(axis), {"(Softmax)", "axis 2"});
  Graph few;
  few.input("x", {2, 3});
  few.sumIsLoss(few.op("Add", {"x"}));
  expectError(importGraph(few), {"(Add)", "1 operands"});
}

TEST(Errors, NoLossToFind) {
  Graph g = product();
  g.graph->clear_output();
  g.output("y", {2, 4});
  expectError(importGraph(g), {"(y)", "<loss>"});
  ImportOptions options;
  options.loss = "z";
  expectError(importGraph(g, options), {"'z'"});
  options.loss = "y";
  expectError(importGraph(g, options), {"'y'", "[2, 4]", "scalar"});
  options.loss = "cross_entropy(y)";
  expectError(importGraph(g, options), {"cross_entropy(LOGITS, LABELS)"});
}

TEST(Errors, GlobsThatMatchNothing) {
  ImportOptions options;
  options.trainable = {"nothing.*"};
  expectError(importGraph(product(), options), {"<trainable>", "'nothing.*'"});
  options.trainable.clear();
  options.frozen = {"nothing.*"};
  expectError(importGraph(product(), options), {"<frozen>", "'nothing.*'"});
}

TEST(Errors, TextThatIsNoKerfIr) {
  TemporaryFolder folder;
  std::string path = (folder.path / "step.mlir").string();
  std::ofstream(path) << "module { func.func @main(";
  expectError(importFile(path), {"step.mlir", "not kerf IR"});
}

} // namespace
} // namespace kerf
