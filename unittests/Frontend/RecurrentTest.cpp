// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: which ops their steps become, in which order, and what is refused.
#include "Graphs.h"

namespace kerf {
namespace {

constexpr int64_t kSteps = 3, kBatch = 4, kSize = 5, kHidden = 2;

struct Recurrent {
  Graph g;
  onnx::NodeProto *node;

  Recurrent(const std::string &op, int64_t gates, const std::string &direction = "forward",
            const std::string &lengths = "") {
    int64_t directions = direction == "bidirectional" ? 2 : 1;
    g.input("x", {kSteps, kBatch, kSize});
    if (!lengths.empty())
      g.input(lengths, {kBatch}, onnx::TensorProto::INT64);
    node = g.node(op,
                  {"x", g.parameter("w", {directions, gates * kHidden, kSize}),
                   g.parameter("r", {directions, gates * kHidden, kHidden}),
                   g.parameter("b", {directions, 2 * gates * kHidden}), lengths},
                  {"y", "last"});
    Graph::setInt(node, "hidden_size", kHidden);
    Graph::setText(node, "direction", direction);
    g.output("y", {kSteps, directions, kBatch, kHidden});
    g.sumIsLoss("y");
  }
  void activations(const std::vector<std::string> &names) {
    onnx::AttributeProto *attribute = node->add_attribute();
    attribute->set_name("activations");
    attribute->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string &name : names)
      attribute->add_strings(name);
  }
  Imported import() const { return importGraph(g); }
};

TEST(Recurrent, StepsStandInTheGraph) {
  struct Case {
    const char *op;
    int64_t gates;
    size_t logistic, tanh, products; // of one step
  };
  for (const Case &c : {Case{"RNN", 1, 0, 1, 1}, Case{"GRU", 3, 2, 1, 2}, Case{"LSTM", 4, 3, 2, 1}})
    for (const char *direction : {"forward", "bidirectional"}) {
      Imported result = Recurrent(c.op, c.gates, direction).import();
      ASSERT_TRUE(bool(result.model)) << c.op << ": " << errorOf(result);
      size_t directions = *direction == 'b' ? 2 : 1;
      EXPECT_EQ(result.arguments("parameter"), (std::vector<std::string>{"w*", "r*", "b*"}));
      EXPECT_EQ(result.ops<ir::LogisticOp>().size(), directions * kSteps * c.logistic) << c.op;
      EXPECT_EQ(result.ops<ir::TanhOp>().size(), directions * kSteps * c.tanh) << c.op;
      EXPECT_EQ(result.ops<ir::DotGeneralOp>().size(), directions * (1 + kSteps * c.products))
          << c.op << ": the inputs of all steps are one product";
    }
}

TEST(Recurrent, ReverseBeginsWithTheLastStep) {
  for (bool reverse : {false, true}) {
    Imported result = Recurrent("RNN", 1, reverse ? "reverse" : "forward").import();
    ASSERT_TRUE(bool(result.model)) << errorOf(result);
    std::vector<int64_t> steps;
    for (ir::SliceOp slice : result.ops<ir::SliceOp>())
      if (ir::shapeOf(slice.getOperand()) == Shape{kSteps, kBatch, kHidden})
        steps.push_back(slice.getStart()[0]);
    EXPECT_EQ(steps, (reverse ? std::vector<int64_t>{2, 1, 0} : std::vector<int64_t>{0, 1, 2}));
  }
}

TEST(Recurrent, AResetBehindTheProductIsAnotherGru) {
  Recurrent behind("GRU", 3);
  Graph::setInt(behind.node, "linear_before_reset", 1);
  Imported result = behind.import();
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  // The state itself is in the product of the hidden gate: no reset comes in between.
  for (ir::DotGeneralOp dot : result.ops<ir::DotGeneralOp>())
    EXPECT_FALSE(dot.getLhs().getDefiningOp<ir::MultiplyOp>());
}

TEST(Recurrent, EndedSequencesKeepTheirState) {
  Imported result = Recurrent("LSTM", 4, "forward", "lengths").import();
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.ops<ir::CompareOp>().size(), size_t(kSteps));
  // Output and both states of each step, less the last states: nobody reads them.
  EXPECT_EQ(result.ops<ir::SelectOp>().size(), size_t(3 * kSteps - 2));
}

TEST(Recurrent, ActivationsByName) {
  Recurrent relu("LSTM", 4);
  relu.activations({"Sigmoid", "Relu", "Tanh"});
  Imported result = relu.import();
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.ops<ir::MaximumOp>().size(), size_t(kSteps));
  EXPECT_EQ(result.ops<ir::TanhOp>().size(), size_t(kSteps));
}

TEST(Recurrent, WhatIsRefused) {
  auto expectRefused = [](const Recurrent &graph, const std::vector<std::string> &words) {
    Imported result = graph.import();
    ASSERT_FALSE(bool(result.model));
    for (const std::string &word : words)
      EXPECT_NE(errorOf(result).find(word), std::string::npos) << errorOf(result);
  };
  Recurrent unknown("LSTM", 4);
  unknown.activations({"Sigmoid", "Affine", "Tanh"});
  expectRefused(unknown, {"node 'node_y' (LSTM)", "'Affine'"});
  Recurrent fewer("LSTM", 4, "bidirectional");
  fewer.activations({"Sigmoid", "Tanh", "Tanh"});
  expectRefused(fewer, {"3 activations are given, but 2 directions need 6"});
  expectRefused(Recurrent("LSTM", 3), {"W has the shape", "[1, 6, 5]", "[1, 8, 5]"});
  Recurrent wide("RNN", 1);
  wide.node->mutable_attribute(0)->set_i(7);
  expectRefused(wide, {"hidden_size is 7", "2"});
  Recurrent sideways("RNN", 1, "sideways");
  expectRefused(sideways, {"direction 'sideways'"});
  Recurrent clipped("RNN", 1);
  Graph::setInt(clipped.node, "clip", 1);
  expectRefused(clipped, {"clip"});
}

TEST(Recurrent, SequencesGrowFromNothing) {
  Graph g;
  g.input("x", {4, 3});
  std::string two =
      g.op("SequenceInsert", {g.op("SequenceInsert", {g.op("SequenceEmpty", {}), "x"}), g.op("Tanh", {"x"})});
  g.sumIsLoss(g.op("ConcatFromSequence", {g.op("SequenceErase", {two, g.constant<int64_t>({}, {0})})}, {{"axis", 0}}));
  Imported result = importGraph(g);
  ASSERT_TRUE(bool(result.model)) << errorOf(result);
  EXPECT_EQ(result.ops<ir::TanhOp>().size(), 1u);
  EXPECT_EQ(result.ops<ir::ConcatenateOp>().size(), 0u) << "one tensor is left";
}

} // namespace
} // namespace kerf
