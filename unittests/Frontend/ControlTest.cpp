// SPDX-License-Identifier: Apache-2.0
// Branches and loops of ONNX graphs, whose course is known at import.
#include "Graphs.h"

namespace kerf {
namespace {

std::string errorOf(const Imported &result) { return result.model ? "" : result.model.error().message; }

void setGraph(onnx::NodeProto *node, const std::string &name, const Graph &subgraph) {
  onnx::AttributeProto *attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  *attribute->mutable_g() = *subgraph.graph;
}

/// One node, of values from outside.
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
    // Known: the number of rows is below the limit or not.
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

/// A body of one layer, h = tanh(h * w), which also gives h; it goes on where `again` holds.
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
  // Until the condition fails, after the second round.
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
  expectRefused(computed, {"node 'node_y' (If)", "its condition is computed"});

  expectRefused(loop({}, body(false)), {"node 'node_y' (Loop)", "100000 are supported", "fewer rounds"});
  expectRefused(loop({0}, body(false)), {"it has no round", "output 1"});
  Graph fewer = body(false);
  fewer.graph->mutable_output()->RemoveLast();
  expectRefused(loop({3}, fewer), {"its body has 2 outputs, the node needs 3"});
  Graph narrow = body(false);
  narrow.graph->mutable_input()->RemoveLast();
  expectRefused(loop({3}, narrow), {"its subgraph has 2 inputs, 3 are given"});
  Graph shadow = body(false);
  shadow.constant<float>({}, {0}, "x");
  expectRefused(loop({3}, shadow), {"its subgraph names 'x', which is there already"});
  Graph twice = body(false);
  twice.op("Identity", {"next"}, {}, "h");
  expectRefused(loop({3}, twice), {"it makes 'h', which is there already"});
  Graph without = loop({3}, body(false));
  without.graph->mutable_node(0)->clear_attribute();
  expectRefused(without, {"no subgraph 'body'"});
}

} // namespace
} // namespace kerf
