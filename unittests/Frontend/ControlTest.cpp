// SPDX-License-Identifier: Apache-2.0
// Tests of branches and loops of ONNX graphs whose control flow is known at import.
#include "Graphs.h"

namespace kerf {
namespace {

void setGraph(onnx::NodeProto *node, const std::string &name, const Graph &subgraph) {
  onnx::AttributeProto *attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  *attribute->mutable_g() = *subgraph.graph;
}

/// Returns a subgraph with one node that reads values of the outer graph.
Graph branch(const std::string &op, const std::vector<std::string> &inputs, const std::string &output) {
  Graph g;
  g.op(op, inputs, {}, output);
  g.output(output);
  return g;
}

TEST(Control, TheBranchThatIsTakenStandsInTheGraph) {
  for (int64_t limit : {3, 4}) {
    Graph g;
    g.input("x", {4, 3});
    std::string w = g.parameter("w", {3});
    // The condition compares the constant number of rows with a limit.
    std::string rows = g.op("Gather", {g.op("Shape", {"x"}), g.constant<int64_t>({}, {0})}, {{"axis", 0}});
    std::string holds = g.op("LessOrEqual", {rows, g.constant<int64_t>({}, {limit})});
    onnx::NodeProto *node = g.node("If", {holds}, {"y"});
    setGraph(node, "then_branch", branch("Mul", {"x", w}, "inside"));
    setGraph(node, "else_branch", branch("NoSuchOperator", {"x", w}, "inside"));
    g.sumIsLoss("y");
    Imported result = importGraph(g);
    if (limit == 4) {
      ASSERT_TRUE(bool(result.model)) << errorOf(result);
      ASSERT_EQ(result.ops<ir::MultiplyOp>().size(), 1u);
      EXPECT_EQ(ir::nodeName(result.ops<ir::MultiplyOp>()[0].getLoc()), "node_y/node_inside");
    } else {
      ASSERT_FALSE(bool(result.model));
      for (const char *words : {"node 'node_y'", "node 'node_y/node_inside' (NoSuchOperator)", "not supported"})
        EXPECT_NE(errorOf(result).find(words), std::string::npos) << errorOf(result);
    }
  }
}

/// Returns a loop body with one layer, h = tanh(h * w), which outputs h; the loop continues while `again` is true.
Graph body(bool stops) {
  Graph g;
  g.input("round", {}, onnx::TensorProto::INT64);
  g.input("before", {}, onnx::TensorProto::BOOL);
  g.input("h", {4, 3});
  std::string last = g.constant<int64_t>({}, {1}, "last");
  g.op(stops ? "Less" : "GreaterOrEqual", {"round", stops ? last : "round"}, {}, "again");
  g.op("Mul", {"h", "w"}, {}, "scaled");
  g.op("Tanh", {"scaled"}, {}, "next");
  g.op("Identity", {"next"}, {}, "given");
  for (const char *name : {"again", "next", "given"})
    g.output(name);
  return g;
}

Graph loop(const std::vector<int64_t> &rounds, const Graph &of) {
  Graph g;
  g.input("x", {4, 3});
  g.parameter("w", {3});
  std::string count = rounds.empty() ? "" : g.constant<int64_t>({}, rounds);
  onnx::NodeProto *node = g.node("Loop", {count, g.constant<bool>({}, {true}), "x"}, {"y", "all"});
  setGraph(node, "body", of);
  g.sumIsLoss(g.op("Add", {"y", "all"}));
  return g;
}

TEST(Control, LoopsAreWrittenOut) {
  Imported counted = importGraph(loop({3}, body(false)));
  ASSERT_TRUE(bool(counted.model)) << errorOf(counted);
  EXPECT_EQ(counted.ops<ir::TanhOp>().size(), 3u);
  EXPECT_NE(counted.text().find("tensor<3x4x3xf32>"), std::string::npos) << "what each round gives is stacked";
  // The loop ends when the condition fails, after the second iteration.
  Imported until = importGraph(loop({}, body(true)));
  ASSERT_TRUE(bool(until.model)) << errorOf(until);
  EXPECT_EQ(until.ops<ir::TanhOp>().size(), 2u);
}

void expectRefused(const Graph &g, const std::vector<std::string> &words) {
  Imported result = importGraph(g);
  ASSERT_FALSE(bool(result.model));
  for (const std::string &word : words)
    EXPECT_NE(errorOf(result).find(word), std::string::npos) << errorOf(result);
}

TEST(Control, WhatIsRefused) {
  Graph computed;
  computed.input("x", {4, 3});
  computed.parameter("w", {3});
  std::string positive =
      computed.op("Greater", {computed.op("ReduceSum", {"x"}, {{"keepdims", 0}}), computed.constant<float>({}, {0})});
  onnx::NodeProto *node = computed.node("If", {positive}, {"y"});
  setGraph(node, "then_branch", branch("Mul", {"x", "w"}, "a"));
  setGraph(node, "else_branch", branch("Add", {"x", "w"}, "b"));
  computed.sumIsLoss("y");
  expectRefused(computed, {"node 'node_y' (If)", "its condition depends on inputs"});

  expectRefused(loop({}, body(false)), {"node 'node_y' (Loop)", "100000 are supported", "fewer iterations"});
  expectRefused(loop({0}, body(false)), {"no iteration", "output 1"});
  Graph fewer = body(false);
  fewer.graph->mutable_output()->RemoveLast();
  expectRefused(loop({3}, fewer), {"its body has 2 outputs, but the node needs 3"});
  Graph narrow = body(false);
  narrow.graph->mutable_input()->RemoveLast();
  expectRefused(loop({3}, narrow), {"its subgraph has 2 inputs, but 3 are given"});
  Graph shadow = body(false);
  shadow.constant<float>({}, {0}, "x");
  expectRefused(loop({3}, shadow), {"its subgraph computes 'x', but another value has this name already"});
  Graph twice = body(false);
  twice.op("Identity", {"next"}, {}, "h");
  expectRefused(loop({3}, twice), {"it computes 'h', but another value has this name already"});
  Graph stacked = body(false);
  for (onnx::NodeProto &one : *stacked.graph->mutable_node())
    if (one.output(0) == "given") {
      one.set_op_type("Cast");
      Graph::setInt(&one, "to", 17);
    }
  expectRefused(loop({3}, stacked), {"node 'node_y' (Loop)", "stacks tensors of FLOAT8E4M3FN"});
  Graph without = loop({3}, body(false));
  without.graph->mutable_node(0)->clear_attribute();
  expectRefused(without, {"no subgraph 'body'"});
}

/// Returns a Scan over "x" of `shape` whose state and output is the running sum.
onnx::NodeProto *runningSums(Graph &g, const Shape &shape, const std::vector<int64_t> &values) {
  Graph body;
  body.op("Add", {"sum", "slice"}, {}, "next");
  body.op("Identity", {"next"}, {}, "given");
  for (const char *name : {"sum", "slice"})
    body.input(name, {2}, onnx::TensorProto::INT64);
  for (const char *name : {"next", "given"})
    body.output(name);
  g.constant<int64_t>(shape, values, "steps");
  onnx::NodeProto *node = g.node("Scan", {g.integers({10, 20}), "steps"}, {"last", "all"});
  Graph::setInt(node, "num_scan_inputs", 1);
  setGraph(node, "body", body);
  return node;
}

TEST(Control, ScansGoAlongTheirAxesBothWays) {
  const std::vector<int64_t> steps{1, 2, 3, 4, 5, 6}; // three steps of two
  Graph plain;
  runningSums(plain, {3, 2}, steps);
  expectFolded<int64_t>(plain, "all", {3, 2}, {11, 22, 14, 26, 19, 32});
  Graph last;
  runningSums(last, {3, 2}, steps);
  expectFolded<int64_t>(last, "last", {2}, {19, 32});
  Graph backward; // from the last step to the first; the outputs are columns in the order of the steps
  onnx::NodeProto *node = runningSums(backward, {2, 3}, {1, 3, 5, 2, 4, 6});
  for (const char *name : {"scan_input_axes", "scan_input_directions", "scan_output_directions"})
    Graph::setInts(node, name, {1});
  Graph::setInts(node, "scan_output_axes", {-1});
  expectFolded<int64_t>(backward, "all", {2, 3}, {19, 18, 15, 32, 30, 26});
}

TEST(Control, WhatScansAreRefused) {
  auto refused = [](const char *attribute, const std::vector<int64_t> &values, const std::vector<std::string> &words) {
    Graph g;
    g.input("x", {2});
    onnx::NodeProto *node = runningSums(g, {3, 2}, {1, 2, 3, 4, 5, 6});
    if (values.empty())
      node->mutable_attribute(0)->set_i(3);
    else
      Graph::setInts(node, attribute, values);
    g.sumIsLoss(g.op("Mul", {"x", g.op("Cast", {"last"}, {{"to", onnx::TensorProto::FLOAT}})}));
    expectRefused(g, words);
  };
  refused("", {}, {"(Scan)", "num_scan_inputs is 3, but the node has 2 operands"});
  refused("scan_input_axes", {0, 0}, {"2 axes", "1 of each"});
  refused("scan_input_axes", {2}, {"axis 2", "2 dimensions"});
  refused("scan_output_axes", {2}, {"axis 2", "2 dimensions"});
}

TEST(Control, SequencesAreMappedElementByElement) {
  Graph g, body;
  body.input("each", {}, onnx::TensorProto::INT64);
  body.input("whole", {}, onnx::TensorProto::INT64);
  body.op("Mul", {"each", "whole"}, {}, "scaled");
  body.output("scaled");
  std::string parts = g.op("SequenceConstruct", {g.integers({1}), g.integers({2, 3})});
  setGraph(g.node("SequenceMap", {parts, g.integers({5})}, {"mapped"}), "body", body);
  expectFolded<int64_t>(g, g.op("ConcatFromSequence", {"mapped"}, {{"axis", 0}}), {3}, {5, 10, 15});
  Graph unequal;
  unequal.input("x", {2});
  std::string two = unequal.op("SequenceConstruct", {"x", "x"}), one = unequal.op("SequenceConstruct", {"x"});
  setGraph(unequal.node("SequenceMap", {two, one}, {"mapped"}), "body", body);
  unequal.sumIsLoss(unequal.op("ConcatFromSequence", {"mapped"}, {{"axis", 0}}));
  expectRefused(unequal, {"(SequenceMap)", "operand 1 is a sequence of tensors (length 1)"});
}

TEST(Control, OptionalsAreWhatTheyHold) {
  for (bool holds : {true, false}) {
    Graph g;
    g.input("x", {4});
    std::string optional = holds ? g.op("Optional", {"x"}) : g.op("Optional", {});
    onnx::NodeProto *node = g.node("If", {g.op("OptionalHasElement", {optional})}, {"y"});
    setGraph(node, "then_branch", branch("OptionalGetElement", {optional}, "held"));
    setGraph(node, "else_branch", branch("Tanh", {"x"}, "other"));
    g.sumIsLoss("y");
    Imported result = importGraph(g);
    ASSERT_TRUE(bool(result.model)) << errorOf(result);
    EXPECT_EQ(result.ops<ir::TanhOp>().size(), holds ? 0u : 1u);
  }
  Graph absent;
  absent.input("x", {4});
  absent.sumIsLoss(absent.op("Add", {"x", absent.op("OptionalGetElement", {absent.op("Optional", {})})}));
  expectRefused(absent, {"(OptionalGetElement)", "is empty"});
  Graph read;
  read.input("x", {4});
  read.sumIsLoss(read.op("Add", {"x", read.op("Optional", {})}));
  expectRefused(read, {"(Add)", "operand 1", "an empty optional, but a tensor is needed"});
  Graph sequence;
  sequence.input("x", {4});
  std::string parts = sequence.op("SequenceConstruct", {"x"});
  sequence.sumIsLoss(sequence.op("SequenceAt", {parts, sequence.op("SequenceEmpty", {})}));
  expectRefused(sequence, {"(SequenceAt)", "operand 1", "a sequence of tensors, but a tensor is needed"});
}

/// Adds a constant string tensor.
std::string texts(Graph &g, const Shape &shape, const std::vector<std::string> &values) {
  onnx::TensorProto *tensor = g.graph->add_initializer();
  tensor->set_name("texts" + std::to_string(g.count++));
  tensor->set_data_type(onnx::TensorProto::STRING);
  for (int64_t size : shape)
    tensor->add_dims(size);
  for (const std::string &value : values)
    tensor->add_string_data(value);
  return tensor->name();
}

TEST(Control, TextsAreComparedAtImport) {
  Graph g;
  std::string rows = texts(g, {2, 1}, {"a", ""}), columns = g.op("Identity", {texts(g, {3}, {"", "a", "ab"})});
  expectFolded<int64_t>(g, g.op("Equal", {rows, columns}), {2, 3}, {0, 1, 0, 1, 0, 0});
  Graph added;
  added.input("x", {2});
  added.sumIsLoss(added.op("Add", {"x", texts(added, {2}, {"1", "2"})}));
  expectRefused(added, {"(Add)", "operand 1", "a tensor of texts, but a tensor is needed"});
  Graph mixed;
  mixed.input("x", {2});
  mixed.sumIsLoss(mixed.op("Where", {mixed.op("Equal", {"x", texts(mixed, {2}, {"1", "2"})}), "x", "x"}));
  expectRefused(mixed, {"(Equal)", "a tensor with a tensor of texts"});
  Graph fewer;
  fewer.input("x", {2});
  fewer.sumIsLoss(
      fewer.op("Where", {fewer.op("Equal", {texts(fewer, {2}, {"1"}), texts(fewer, {1}, {"1"})}), "x", "x"}));
  expectRefused(fewer, {"tensor 'texts0'", "1 texts", "[2]"});
}

} // namespace
} // namespace kerf
